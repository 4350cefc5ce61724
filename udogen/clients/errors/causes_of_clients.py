"""Why errors of SNPE, ExecuTorch, LiteRT and ONNX Runtime come; and the way to all causes."""

from __future__ import annotations

from collections.abc import Mapping

from udogen.clients.errors import causes
from udogen.clients.errors.causes import CRASHED, SIGNATURE, SKEL
from udogen.clients.errors.model import Cause

_CPU = "measured: libQnnCpu 2.47"

BY_CODE: Mapping[tuple[str, int], tuple[Cause, ...]] = {
    ("snpe", 500): (*SKEL[:2], SIGNATURE),
    ("snpe", 606): (Cause("the kernel returned an error", "run it alone: `udogen run op REG_LIBRARY OP`", _CPU),),
    ("snpe", 904): SKEL[:3],
    ("snpe", 908): (*SKEL, SIGNATURE),
    ("snpe", 911): CRASHED,
    ("snpe", 914): (
        Cause(
            "the implementation library for the DSP is not in a folder of ADSP_LIBRARY_PATH",
            "put libUdo<Package>ImplDsp…so there; `udogen inspect REG_LIBRARY` names the file",
            "documented: SNPE, Running a model with UDO",
        ),
    ),
    ("snpe", 1010): (
        Cause(
            "the model was converted with another UDO config than the package's",
            "convert it anew with this config",
            "documented: SNPE, Preparing a model with UDO",
        ),
    ),
    ("snpe", 1106): (
        Cause(
            "the path is not absolute",
            "--udo_package_path /full/path/libUdo<Package>Reg.so",
            "documented: SNPE, Running a model with UDO",
        ),
        Cause(
            "an implementation library was given in place of the registration library",
            "udogen inspect LIBRARY",
            "documented: SNPE, Running a model with UDO",
        ),
        Cause("the registration library does not answer", "udogen inspect REG_LIBRARY", "measured: a host of ours"),
    ),
    ("snpe", 1107): (
        Cause(
            "no package of the model's UDO is registered",
            "--udo_package_path, or Snpe_Util_AddOpPackage before build",
            "documented: SNPE, Running a model with UDO",
        ),
    ),
    ("snpe", 1108): (
        Cause(
            "the loader does not find the implementation library",
            "put its folder into LD_LIBRARY_PATH",
            "documented: SNPE, Running a model with UDO",
        ),
    ),
    ("executorch", 0x01): (
        Cause(
            "QNN could not start, or an op package was not registered: ExecuTorch logs that and goes on",
            "read the lines before with `udogen explain LOG`",
            "pytorch/executorch #2788",
        ),
    ),
    ("executorch", 0x14): (
        Cause(
            "a custom op was not taken by the delegate, and the runner has no kernel for it",
            "register it for the partitioner too (op_package_options), on the host",
            "documented: ExecuTorch, custom_op example",
        ),
    ),
    ("executorch", 0x20): (
        Cause(
            "the runner is not linked with the QNN backend",
            "link qnn_executorch_backend, whole archive",
            "documented: ExecuTorch, backends",
        ),
    ),
    ("executorch", 0x30): (
        Cause(
            "the model was made with another SDK, or for another chip",
            "export it anew with this SDK and soc_model",
            "documented: ExecuTorch, runtime/core/error.h",
        ),
    ),
    ("litert", 502): (
        Cause(
            "a library is not beside the others",
            "all of QNN's libraries and the plug-in in one folder",
            "DenisovAV/flutter_gemma #293",
        ),
    ),
    ("ort", 1): (
        Cause(
            "`OrtEp has invalid ort_version_supported=0`: onnxruntime-qnn 2.3.0 or earlier, onnxruntime 1.28 or later",
            "onnxruntime>=1.24.2,<1.28 with onnxruntime-qnn 2.3.0",
            "onnxruntime/onnxruntime-qnn #564",
        ),
        Cause(
            "`is not a registered function/op`: the custom op has no schema",
            "udogen onnx-schema MODEL -o OUT",
            "microsoft/onnxruntime #8684",
        ),
    ),
    ("ort", 9): (
        Cause(
            "QNN did not take a custom op, and ONNX Runtime has no kernel for it",
            "see why with verbose logs, or open the session with udogen.clients.ort",
            "measured: ONNX Runtime 1.27",
        ),
    ),
    ("ort", 10): (
        Cause("a custom op has no schema", "udogen onnx-schema MODEL -o OUT", "microsoft/onnxruntime #8684"),
    ),
}


def of(family: str, code: int) -> tuple[Cause, ...]:
    """The causes of a number; none where nobody has told."""
    return BY_CODE.get((family, code)) or causes.BY_CODE.get((family, code), ())
