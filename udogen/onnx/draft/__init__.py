"""Configs and test cases from ONNX models."""
