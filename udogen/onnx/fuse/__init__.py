"""`udogen onnx fuse`: nodes of an ONNX model become one custom op: kernel, reference, test cases, and a new model."""
