"""Descriptions of context binaries as C structs: every version, HTP's additions, and invalid content."""

from __future__ import annotations

from typing import Any

import pytest

from udogen import RunFailed
from udogen.qnn import abi, heads, system
from udogen.qnn.heads import NoContextBinary
from udogen.qnn.system import HardwareDevice, HtpGraph
from udogen.qnn.tensors import APP_READ, APP_WRITE, QnnTensor, tensor_array
from udogen.runtime.quantization import AxisScaleOffset, ScaleOffset

FFI = abi.ffi()


class Description:
    """A `QnnSystemContext_BinaryInfo_t` with one graph, and everything that it points to."""

    def __init__(self, version: int) -> None:
        self.kept: list[Any] = []
        quant = AxisScaleOffset(1, (ScaleOffset(0.5), ScaleOffset(0.25, 1)))
        tensors = [
            QnnTensor("x", dtype="INT_8", shape=(3, 2), role=APP_WRITE, id=5, quant=quant, dynamic=(True, False)),
            QnnTensor("y", dtype="FLOAT_16", shape=(), role=APP_READ, id=6),
        ]
        arrays = [tensor_array([tensor]) for tensor in tensors]
        self.kept += [tensors, arrays]
        self.info = FFI.new("QnnSystemContext_BinaryInfo_t *")
        self.info.version = version
        self.body = getattr(self.info, f"contextBinaryInfoV{version}")
        self.graphs = FFI.new("QnnSystemContext_GraphInfo_t[]", 2)
        for row, name in zip(self.graphs, ("first", "second"), strict=True):
            row.version = version
            graph = getattr(row, f"graphInfoV{version}")
            graph.graphName = self.keep(FFI.new("char[]", name.encode()))
            graph.numGraphInputs, graph.graphInputs = 1, arrays[0]
            graph.numGraphOutputs, graph.graphOutputs = 1, arrays[1]
        self.body.backendId, self.body.numGraphs, self.body.graphs = 6, 2, self.graphs
        self.body.buildId = self.keep(FFI.new("char[]", b"v2.99"))
        self.body.numContextTensors, self.body.contextTensors = 1, arrays[1]

    def keep(self, thing: Any) -> Any:
        self.kept.append(thing)
        return thing

    def read(self) -> system.BinaryInfo:
        return system._binary(self.info, "it")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version(version: int) -> None:
    info = Description(version).read()
    assert (info.version, info.backend_id, info.build_id, info.soc) == (version, 6, "v2.99", "")
    assert [graph.name for graph in info.graphs] == ["first", "second"]
    [x], [y] = info.graphs[1].inputs, info.graphs[1].outputs
    assert (x.id, x.name, x.dtype, x.shape, x.role, x.dynamic) == (5, "x", "INT_8", (3, 2), APP_WRITE, (True, False))
    assert x.quant == AxisScaleOffset(1, (ScaleOffset(0.5), ScaleOffset(0.25, 1)))
    assert x.scale_offset is None and x.nbytes == 6
    assert (y.shape, y.nbytes, y.dynamic, y.quant) == ((), 2, (), None)
    assert info.context_tensors == (y,)
    assert info.graphs[0].htp is None and info.devices == () and info.arch == ""


@pytest.mark.parametrize("version", [1, 2])
def test_spill_fill_of_older_descriptions(version: int) -> None:
    made = Description(version)
    blobs = made.keep(FFI.new("QnnHtpSystemContext_HwBlobInfo_t[]", 2))
    blobs[0].version, blobs[0].contextBinaryHwInfoBlobV1_t.graphListIndex = 1, 1
    blobs[0].contextBinaryHwInfoBlobV1_t.spillFillBufferSize = 4096
    blobs[1].version = 9  # of a newer release: not supported
    made.body.hwInfoBlob, made.body.hwInfoBlobSize = blobs, FFI.sizeof(blobs)
    assert [graph.htp for graph in made.read().graphs] == [None, HtpGraph(spill_fill=4096)]


@pytest.mark.parametrize(("size", "wanted"), [(39, None), (40, "first"), (111, "first"), (112, "both")])
def test_the_blob_of_a_graph(size: int, wanted: str | None) -> None:
    """Of one version, followed by the next one if there is enough space."""
    made = Description(3)
    room = made.keep(FFI.new("char[]", 112))
    first = FFI.cast("QnnHtpSystemContext_GraphBlobInfo_t *", room)
    first.version, body = 1, first.contextBinaryGraphBlobInfoV1
    body.spillFillBufferSize, body.vtcmSize, body.optimizationLevel, body.htpDlbc, body.numHvxThreads = 7, 8, 3, 1, 4
    second = FFI.cast("QnnHtpSystemContext_GraphBlobInfoV2_t *", room + 40)
    second.version, second.sharedWeightsSize, second.isSafeShareIO = 2, 1 << 33, 1
    graph = made.graphs[0].graphInfoV3
    graph.graphBlobInfo, graph.graphBlobInfoSize = room, size
    one = HtpGraph(7, 8 << 20, 3, True, 4)
    both = one._replace(shared_weights=1 << 33, safe_to_share_io=True)
    assert made.read().graphs[0].htp == {None: None, "first": one, "both": both}[wanted]
    first.version = 5
    assert made.read().graphs[0].htp is None


def test_arch_processor_and_devices() -> None:
    made = Description(3)
    blob = made.keep(FFI.new("QnnHtpSystemContext_ContextBlobInfo_t *"))
    blob.version, blob.contextBinaryContextBlobInfoV1.dspArch = 1, 75
    made.body.contextMetadata, made.body.contextMetadataSize, made.body.socModel = blob, FFI.sizeof(blob[0]), 57
    platform = made.keep(FFI.new("QnnDevice_PlatformInfo_t *"))
    rows = made.keep(FFI.new("QnnDevice_HardwareDeviceInfo_t[]", 2))
    rows[1].v1.deviceId, rows[1].v1.numCores = 1, 4
    platform.version, platform.v1.numHwDevices, platform.v1.hwDevices = 1, 2, rows
    made.body.platformInfo = platform
    info = made.read()
    assert (info.arch, info.soc_model) == ("v75", 57)
    assert info.devices == (HardwareDevice(0, 0, 0), HardwareDevice(1, 0, 4))


def test_what_no_sound_file_has() -> None:
    made = Description(3)
    made.body.numGraphs = 1 << 20
    with pytest.raises(NoContextBinary, match="it: graphs are 1048576"):
        made.read()
    made.body.numGraphs, made.body.graphs = 2, FFI.NULL
    with pytest.raises(NoContextBinary, match="it: graphs are 2, but the array is NULL"):
        made.read()
    made.body.graphs = made.graphs
    made.graphs[0].graphInfoV3.numGraphInputs = 1 << 30
    with pytest.raises(NoContextBinary, match="it: graph `first`: inputs are 1073741824"):
        made.read()
    made.graphs[0].graphInfoV3.numGraphInputs = 1
    made.graphs[0].graphInfoV3.graphInputs[0].v1.rank = 1 << 20
    with pytest.raises(NoContextBinary, match="it: graph `first`: inputs: axes of `x` are 1048576"):
        made.read()
    made.graphs[0].version = 4
    with pytest.raises(RunFailed, match="the description of a graph of it has version 4; known are 1 to 3"):
        made.read()


def test_a_type_of_a_newer_release() -> None:
    made = Description(1)
    made.graphs[0].graphInfoV1.graphInputs[0].v1.dataType = 0x0777
    made.graphs[0].graphInfoV1.graphInputs[0].v1.type = 77
    x = made.read().graphs[0].inputs[0]
    assert (x.dtype, x.role) == ("0x777", "0x4d")


def test_heads() -> None:
    assert heads.read(b"") == heads.Head()
    assert heads.read(b"UDOGENCB") == heads.Head(emulator=True)
    assert heads.is_known(b"UDOGENCB") and not heads.is_known(b"\x7fELF")
