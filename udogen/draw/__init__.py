"""Pictures of ops and graphs with their tensors, as SVG for light and dark mode."""
