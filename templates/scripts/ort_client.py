"""The client of `udogen script --client ort`: a session of ONNX Runtime with op packages, once for each sample.

    ort_client.py --model FILE --backend cpu|gpu|htp --op-packages TEXT --inputs FILE --samples N --output DIR
                  [--device N]

The file of --inputs names the file of each input in inputs/SAMPLE.  An output goes to DIR/Result_SAMPLE/<its name>.raw.
Python 3.8 or later, with numpy, onnxruntime and onnxruntime-qnn.
"""

import argparse
import json
import os
import re
import sys
import time

_TYPES = {
    "tensor(float)": "<f4",
    "tensor(float16)": "<f2",
    "tensor(double)": "<f8",
    "tensor(int8)": "i1",
    "tensor(int16)": "<i2",
    "tensor(int32)": "<i4",
    "tensor(int64)": "<i8",
    "tensor(uint8)": "u1",
    "tensor(uint16)": "<u2",
    "tensor(uint32)": "<u4",
    "tensor(uint64)": "<u8",
    "tensor(bool)": "?",
}


def fail(text):
    """End with a sentence."""
    sys.stdout.flush()
    sys.exit("ort_client: " + text)


def open_session(wishes):
    """A session of which the packages' ops are on QNN: ONNX Runtime itself falls back without a word."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if wishes.backend != "cpu":  # with it the provider refuses its CPU backend
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    provider = {"backend_path": "libQnn%s.so" % wishes.backend.capitalize(), "op_packages": wishes.op_packages}
    if wishes.device is not None:
        provider["device_id"] = str(wishes.device)
    try:
        import onnxruntime_qnn
    except ImportError:  # built into onnxruntime
        options.add_provider("QNNExecutionProvider", provider)
        return check_places(onnxruntime.InferenceSession(wishes.model, options), wishes)
    provider["backend_path"] = getattr(onnxruntime_qnn, "get_qnn_%s_path" % wishes.backend)()
    onnxruntime.register_execution_provider_library("QNN", onnxruntime_qnn.get_library_path())
    devices = [each for each in onnxruntime.get_ep_devices() if each.ep_name == "QNN"]
    if not devices:
        fail("ONNX Runtime has no QNN device: do its version and that of onnxruntime-qnn go together?")
    options.add_provider_for_devices(devices[:1], provider)
    return check_places(onnxruntime.InferenceSession(wishes.model, options), wishes)


def check_places(session, wishes):
    """Each op of a package must be in a part of the graph that QNN took."""
    try:
        parts = session.get_provider_graph_assignment_info()
    except AttributeError:  # before 1.24
        return session
    wanted = {entry.split(":")[0] for entry in wishes.op_packages.split(",")}
    placed = {node.op_type for part in parts if part.ep_name.startswith("QNN") for node in part.get_nodes()}
    elsewhere = {node.op_type for part in parts if not part.ep_name.startswith("QNN") for node in part.get_nodes()}
    missing = sorted((wanted - placed) | (wanted & elsewhere))
    if missing:
        fail("op %s is not on QNN: ONNX Runtime would run it elsewhere, or has no schema for it" % ", ".join(missing))
    return session


def read_input(node, path):
    """An input of the model, from raw bytes."""
    import numpy

    data = numpy.fromfile(path, dtype=_TYPES[node.type])
    if all(isinstance(extent, int) for extent in node.shape):
        wanted = int(numpy.prod(node.shape, dtype=numpy.int64))
        if data.size != wanted:
            fail("%s has %d values, the input %s takes %d" % (path, data.size, node.name, wanted))
        return data.reshape(node.shape)
    if len(node.shape) == 1:
        return data
    fixed = [extent if isinstance(extent, int) else -1 for extent in node.shape]
    if fixed.count(-1) > 1:
        fail("the shape of the input %s is not fixed: %s" % (node.name, node.shape))
    return data.reshape(fixed)


def main():
    """Run it."""
    parser = argparse.ArgumentParser()
    for name in ("model", "backend", "op-packages", "inputs", "output"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--device", type=int)
    wishes = parser.parse_args()
    with open(wishes.inputs, encoding="utf-8") as stream:
        files = json.load(stream)
    try:
        session = open_session(wishes)
    except Exception as fault:  # whatever it raises, its text is what a person needs
        fail("%s: %s" % (type(fault).__name__, fault))
    missing = [node.name for node in session.get_inputs() if node.name not in files]
    if missing:
        fail("the model's input %s is not given" % ", ".join(missing))
    outputs = [node.name for node in session.get_outputs()]
    took = 0.0
    for sample in range(wishes.samples):
        feed = {
            node.name: read_input(node, os.path.join("inputs", str(sample), files[node.name]))
            for node in session.get_inputs()
        }
        begin = time.perf_counter()
        answers = session.run(outputs, feed)
        took += time.perf_counter() - begin
        folder = os.path.join(wishes.output, "Result_%d" % sample)
        os.makedirs(folder, exist_ok=True)
        for name, answer in zip(outputs, answers):
            plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name).lstrip(".-") or "_"
            answer.tofile(os.path.join(folder, plain + ".raw"))
    print("ort_client: %d executed, %.1f us each" % (wishes.samples, 1e6 * took / max(wishes.samples, 1)))


if __name__ == "__main__":
    main()
