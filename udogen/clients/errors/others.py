"""Numbers of ExecuTorch, LiteRT and ONNX Runtime."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One number."""

    code: int
    name: str
    meaning: str


EXECUTORCH = (
    Row(0x01, "Internal", "an error inside; of a delegate: its init or execute failed, the lines before say why"),
    Row(0x02, "InvalidState", "the executor is not in the state for this"),
    Row(0x03, "EndOfMethod", "no step is left"),
    Row(0x04, "AlreadyLoaded", "it is loaded already"),
    Row(0x10, "NotSupported", "this is not supported here"),
    Row(0x11, "NotImplemented", "this is not implemented"),
    Row(0x12, "InvalidArgument", "an argument is not valid: number, shape or type of the inputs"),
    Row(0x13, "InvalidType", "a value of the wrong type"),
    Row(0x14, "OperatorMissing", "an operator that was not delegated has no kernel in this runner"),
    Row(0x15, "RegistrationExceedingMaxKernels", "more kernels than there is room for"),
    Row(0x16, "RegistrationAlreadyRegistered", "a kernel is registered twice"),
    Row(0x20, "NotFound", "not found: a file, a method, or a backend that this runner was not linked with"),
    Row(0x21, "MemoryAllocationFailed", "out of memory"),
    Row(0x22, "AccessFailed", "a file cannot be read"),
    Row(0x23, "InvalidProgram", "this is no program of ExecuTorch, or one of another version"),
    Row(0x24, "InvalidExternalData", "the data beside the program is not valid"),
    Row(0x25, "OutOfResources", "resources are exhausted"),
    Row(0x30, "DelegateInvalidCompatibility", "the delegate does not take what was made for it: another version"),
    Row(0x31, "DelegateMemoryAllocationFailed", "the delegate is out of memory"),
    Row(0x32, "DelegateInvalidHandle", "the delegate's handle is not valid"),
)
LITERT = (
    Row(1, "kLiteRtStatusErrorInvalidArgument", "an argument is not valid"),
    Row(2, "kLiteRtStatusErrorMemoryAllocationFailure", "out of memory"),
    Row(3, "kLiteRtStatusErrorRuntimeFailure", "it failed while it ran"),
    Row(4, "kLiteRtStatusErrorMissingInputTensor", "an input is missing"),
    Row(5, "kLiteRtStatusErrorUnsupported", "this is not supported"),
    Row(6, "kLiteRtStatusErrorNotFound", "not found"),
    Row(7, "kLiteRtStatusErrorTimeoutExpired", "it took too long"),
    Row(8, "kLiteRtStatusErrorWrongVersion", "another version is needed"),
    Row(9, "kLiteRtStatusErrorUnknown", "an error without a number of its own"),
    Row(10, "kLiteRtStatusErrorAlreadyExists", "it exists already"),
    Row(100, "kLiteRtStatusCancelled", "it was cancelled"),
    Row(500, "kLiteRtStatusErrorFileIO", "a file cannot be read or written"),
    Row(501, "kLiteRtStatusErrorInvalidFlatbuffer", "this is no model of TFLite"),
    Row(502, "kLiteRtStatusErrorDynamicLoading", "a library cannot be loaded: a plug-in, or QNN's own"),
    Row(503, "kLiteRtStatusErrorSerialization", "it cannot be written down"),
    Row(504, "kLiteRtStatusErrorCompilation", "the compiler plug-in failed; its lines before say why"),
    Row(1000, "kLiteRtStatusErrorIndexOOB", "an index out of range"),
    Row(1001, "kLiteRtStatusErrorInvalidIrType", "a type that is not valid here"),
    Row(1002, "kLiteRtStatusErrorInvalidGraphInvariant", "the graph is not valid"),
    Row(1003, "kLiteRtStatusErrorGraphModification", "the graph cannot be changed"),
    Row(1500, "kLiteRtStatusErrorInvalidToolConfig", "the tool's options are not valid"),
    Row(2000, "kLiteRtStatusLegalizeNoMatch", "no rule for this op"),
    Row(2001, "kLiteRtStatusErrorInvalidLegalization", "the rule for this op failed"),
    Row(3000, "kLiteRtStatusPatternNoMatch", "no pattern fits"),
    Row(3001, "kLiteRtStatusInvalidTransformation", "the transformation is not valid"),
    Row(4000, "kLiteRtStatusErrorUnsupportedRuntimeVersion", "this runtime's version is not supported"),
    Row(4001, "kLiteRtStatusErrorUnsupportedCompilerVersion", "this compiler's version is not supported"),
    Row(4002, "kLiteRtStatusErrorIncompatibleByteCodeVersion", "what was compiled is for another version"),
    Row(5000, "kLiteRtStatusErrorUnsupportedOpShapeInferer", "nobody knows the shapes of this op's outputs"),
    Row(5001, "kLiteRtStatusErrorShapeInferenceFailed", "the shapes cannot be told"),
)
ORT = (
    Row(1, "FAIL", "it failed; the text says why"),
    Row(2, "INVALID_ARGUMENT", "an argument is not valid: mostly name, shape or type of an input"),
    Row(3, "NO_SUCHFILE", "there is no such file"),
    Row(4, "NO_MODEL", "no model is loaded"),
    Row(5, "ENGINE_ERROR", "the provider's engine failed; of QNN: the DSP was restarted, make the session anew"),
    Row(6, "RUNTIME_EXCEPTION", "an exception while it ran"),
    Row(7, "INVALID_PROTOBUF", "this is no ONNX model, or a damaged one"),
    Row(8, "MODEL_LOADED", "a model is loaded already"),
    Row(9, "NOT_IMPLEMENTED", "no provider of the session has a kernel for an op"),
    Row(10, "INVALID_GRAPH", "the model is not valid: mostly an op that has no schema, or another opset"),
    Row(11, "EP_FAIL", "an execution provider failed; the text, and the lines before, say why"),
    Row(12, "MODEL_LOAD_CANCELED", "loading was cancelled"),
    Row(13, "MODEL_REQUIRES_COMPILATION", "the model must be compiled first"),
    Row(14, "NOT_FOUND", "not found"),
)
