"""ONNX models as udogen sees them: nodes, the types and shapes of their values, and which nodes are custom."""
