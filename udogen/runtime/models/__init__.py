"""Models: context binaries whose tensors are linked, with state that stays on the device, executed step by step."""
