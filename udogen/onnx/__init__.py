"""ONNX models and ONNX Runtime.  The rest of udogen works without this folder, and finds it by these entry points."""

ENTRY_POINTS = {
    "places": {"cpu-ort": "udogen.onnx.places:CPU", "htp-ort": "udogen.onnx.places:HTP"},
    "clients": {"ort": "udogen.onnx.client:CLIENT"},
    "verbs": {
        "onnx": "udogen.onnx.verbs:onnx",
        "onnx schema": "udogen.onnx.verbs:add_schemas",
        "onnx fuse": "udogen.onnx.verbs:fuse",
        "onnx context": "udogen.onnx.verbs:context",
        "run model": "udogen.onnx.verbs:run_model",
    },
    "sources": {"onnx": "udogen.onnx.source:ONNX"},
}
