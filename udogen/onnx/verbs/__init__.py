"""The verbs for ONNX models: one file each."""
