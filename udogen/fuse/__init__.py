"""`udogen fuse`: nodes of an ONNX model become one custom op, with a kernel, a reference, test cases and a new model."""
