"""Pictures of ops and graphs with their tensors, as SVG that a browser shows in light and dark."""
