"""Compares whole ONNX models on QNN (with op packages) and on ONNX Runtime's CPU (with references), by tensor.

Each layer is judged by its own error: its output on QNN is compared with what ONNX Runtime's CPU (or the reference of
a custom op) computes from the same inputs.  Errors of earlier layers are only in the other column, so the first wrong
layer is the one at fault.
"""
