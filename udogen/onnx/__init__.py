"""ONNX models and ONNX Runtime; the rest of udogen works without this folder."""
