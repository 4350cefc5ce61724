"""Every QNN error number: its name, what it means and, where anybody knows, what to do.

One row is one number.  Names after the first are the same number as other parts of the API call it.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple


class ErrorCode(NamedTuple):
    """One error number."""

    code: int
    name: str
    meaning: str
    remedy: str = ""
    aliases: tuple[str, ...] = ()


def describe(code: int) -> ErrorCode:
    """The row of this number; an honest stand-in where there is none."""
    # Backends may keep a detail of their own above bit 16; the number itself is below.
    for candidate in (code, code & 0xFFFF):
        if candidate in _by_code():
            return _by_code()[candidate]
    return ErrorCode(code, f"UNKNOWN_{code}", "a number the QNN API does not define")


@cache
def _by_code() -> dict[int, ErrorCode]:
    from udogen.qnn import backend_codes

    return {row.code: row for row in (*ALL, *backend_codes.ALL)}


_PARTS = ("OP_PACKAGE", "BACKEND", "CONTEXT", "GRAPH", "TENSOR", "LOG", "PROFILE", "MEM", "DEVICE", "SIGNAL")
_SDK_MISMATCH = "use libraries of one SDK release on the host and on the device"

ALL = (
    ErrorCode(
        0,
        "QNN_SUCCESS",
        "no error",
        aliases=(
            *(f"QNN_{part}_NO_ERROR" for part in (*_PARTS, "ERROR", "PROPERTY", "GLOBAL_CONFIG", "INTERFACE")),
            *(f"QNN_SYSTEM_{part}_NO_ERROR" for part in ("CONTEXT", "INTERFACE", "PROFILE")),
            "QNN_PROPERTY_SUPPORTED",
        ),
    ),
    # 1000: common
    ErrorCode(
        1000,
        "QNN_COMMON_ERROR_NOT_SUPPORTED",
        "the backend does not have this feature",
        aliases=(
            *(
                f"QNN_{part}_ERROR_UNSUPPORTED_FEATURE"
                for part in ("OP_PACKAGE", "CONTEXT", "GRAPH", "TENSOR", "DEVICE")
            ),
            *(f"QNN_SYSTEM_{part}_ERROR_UNSUPPORTED_FEATURE" for part in ("CONTEXT", "PROFILE")),
            "QNN_PROFILE_ERROR_UNSUPPORTED",
            "QNN_SIGNAL_ERROR_UNSUPPORTED",
            "QNN_MEM_ERROR_NOT_SUPPORTED",
            "QNN_PROPERTY_NOT_SUPPORTED",
            "QNN_INTERFACE_ERROR_NOT_SUPPORTED",
            "QNN_SYSTEM_INTERFACE_ERROR_NOT_SUPPORTED",
        ),
    ),
    ErrorCode(
        1002,
        "QNN_COMMON_ERROR_MEM_ALLOC",
        "out of memory, or the backend could not place the graph in the memory it has",
        "on HTP: make the tensors smaller or tile the op, its data must fit into TCM; "
        "on a device also check that the skel library is found (ADSP_LIBRARY_PATH, separated by ;)",
        tuple(
            f"QNN_{part}_ERROR_MEM_ALLOC"
            for part in ("BACKEND", "CONTEXT", "GRAPH", "LOG", "PROFILE", "DEVICE", "SIGNAL")
        ),
    ),
    ErrorCode(1003, "QNN_COMMON_ERROR_SYSTEM", "a system call failed"),
    ErrorCode(
        1004,
        "QNN_COMMON_ERROR_INVALID_ARGUMENT",
        "an argument is not valid",
        aliases=(
            "QNN_DEVICE_ERROR_INVALID_ARGUMENT",
            "QNN_PROFILE_ERROR_INVALID_ARGUMENT",
            "QNN_INTERFACE_ERROR_INVALID_PARAMETER",
            "QNN_SYSTEM_INTERFACE_ERROR_INVALID_PARAMETER",
        ),
    ),
    ErrorCode(1005, "QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED", "this call is not allowed now"),
    ErrorCode(
        1006,
        "QNN_COMMON_ERROR_PLATFORM_NOT_SUPPORTED",
        "the backend does not run on this platform",
        aliases=("QNN_BACKEND_ERROR_UNSUPPORTED_PLATFORM",),
    ),
    ErrorCode(
        1007,
        "QNN_COMMON_ERROR_SYSTEM_COMMUNICATION",
        "no connection to the processor that should run this",
        "on a device: check ADSP_LIBRARY_PATH (separated by ;) and that the skel matches the SoC",
    ),
    ErrorCode(
        1008,
        "QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES",
        "libraries of different releases meet",
        f"{_SDK_MISMATCH}; check that the skel library is found (ADSP_LIBRARY_PATH, separated by ;)",
    ),
    ErrorCode(
        1009,
        "QNN_COMMON_ERROR_LOADING_BINARIES",
        "a library could not be loaded",
        "on a device: check ADSP_LIBRARY_PATH (separated by ;) and LD_LIBRARY_PATH",
    ),
    ErrorCode(1010, "QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE", "a resource is in use by someone else", "try again"),
    ErrorCode(
        1011,
        "QNN_COMMON_ERROR_SYSTEM_COMMUNICATION_FATAL",
        "the connection to the processor is lost for good",
        "free everything and start the process anew",
    ),
    ErrorCode(
        1100,
        "QNN_COMMON_ERROR_GENERAL",
        "an error without a number of its own",
        aliases=("QNN_OP_PACKAGE_ERROR_GENERAL", "QNN_GRAPH_ERROR_GENERAL"),
    ),
    # 2000: properties
    ErrorCode(2000, "QNN_PROPERTY_ERROR_UNKNOWN_KEY", "the backend does not know this property"),
    # 3000: op packages
    ErrorCode(
        3000,
        "QNN_OP_PACKAGE_ERROR_LIBRARY_ALREADY_INITIALIZED",
        "the op package is initialized already",
        "register it once per process",
    ),
    ErrorCode(
        3001,
        "QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED",
        "the op package was asked something before its init was called",
    ),
    ErrorCode(3002, "QNN_OP_PACKAGE_ERROR_INVALID_HANDLE", "a handle given to the op package is not valid"),
    ErrorCode(
        3100,
        "QNN_OP_PACKAGE_ERROR_INVALID_INFRASTRUCTURE",
        "the op package got an infrastructure it cannot use",
    ),
    ErrorCode(3101, "QNN_OP_PACKAGE_ERROR_INVALID_INFO", "the op package's information is not valid"),
    ErrorCode(
        3110,
        "QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE",
        "the op's validateOpConfig refused this node",
        "compare the number, types and shapes of tensors and params with the op's config; "
        "the reason is in the op package's own log lines, the runtime adds none",
    ),
    ErrorCode(3200, "QNN_OP_PACKAGE_ERROR_INVALID_ARGUMENT", "the op package got an argument that is not valid"),
    # 4000: backends
    ErrorCode(4000, "QNN_BACKEND_ERROR_CANNOT_INITIALIZE", "the backend cannot start"),
    ErrorCode(4002, "QNN_BACKEND_ERROR_TERMINATE_FAILED", "the backend cannot stop"),
    ErrorCode(
        4003,
        "QNN_BACKEND_ERROR_NOT_SUPPORTED",
        "the backend does not support this",
        "on x86 the target of an HTP package must be CPU or absent",
    ),
    ErrorCode(
        4004,
        "QNN_BACKEND_ERROR_INVALID_ARGUMENT",
        "an argument is not valid",
        "the package's path must be given",
    ),
    ErrorCode(
        4005,
        "QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND",
        "the op package is missing or cannot be loaded, or a node names one that is not registered",
        "check path, ELF class and undefined symbols; a node's packageName is the one getInfo returns",
    ),
    ErrorCode(
        4006,
        "QNN_BACKEND_ERROR_OP_PACKAGE_IF_PROVIDER_NOT_FOUND",
        "the library does not export this interface provider",
        "the symbol is usually <PackageName>InterfaceProvider",
    ),
    ErrorCode(
        4007,
        "QNN_BACKEND_ERROR_OP_PACKAGE_REGISTRATION_FAILED",
        "the op package could not be registered",
        "a package of this name may be registered already: register each one once",
    ),
    ErrorCode(
        4008,
        "QNN_BACKEND_ERROR_OP_PACKAGE_UNSUPPORTED_VERSION",
        "the backend does not take the package's interface version, or a function of it is missing",
        "set interfaceVersion to 1.4.0 and fill every member of v1_4",
    ),
    ErrorCode(
        4009,
        "QNN_BACKEND_ERROR_OP_PACKAGE_DUPLICATE",
        "an op package of this name, with the same ops, is there already",
        "register each package once",
    ),
    ErrorCode(4010, "QNN_BACKEND_ERROR_INCONSISTENT_CONFIG", "the backend's options contradict each other"),
    ErrorCode(4011, "QNN_BACKEND_ERROR_INVALID_HANDLE", "the backend's handle is not valid"),
    ErrorCode(4012, "QNN_BACKEND_ERROR_INVALID_CONFIG", "an option of the backend is not valid"),
    # 5000: contexts
    ErrorCode(5000, "QNN_CONTEXT_ERROR_INVALID_ARGUMENT", "an argument is not valid"),
    ErrorCode(5001, "QNN_CONTEXT_ERROR_CTX_DOES_NOT_EXIST", "there is no such context"),
    ErrorCode(5002, "QNN_CONTEXT_ERROR_INVALID_HANDLE", "the context's handle is not valid"),
    ErrorCode(
        5003,
        "QNN_CONTEXT_ERROR_NOT_FINALIZED",
        "a graph of the context is not finalized",
        "finalize it first",
    ),
    ErrorCode(
        5004,
        "QNN_CONTEXT_ERROR_BINARY_VERSION",
        "the context binary was made by a release this one cannot read",
        "make it anew with this release",
    ),
    ErrorCode(
        5005,
        "QNN_CONTEXT_ERROR_CREATE_FROM_BINARY",
        "the context binary cannot be restored",
        "the binary may be damaged: compare it with where it was made; else register its op packages first, "
        "and use the backend and the release that made it",
    ),
    ErrorCode(5006, "QNN_CONTEXT_ERROR_GET_BINARY_SIZE_FAILED", "the size of the context binary cannot be told"),
    ErrorCode(5007, "QNN_CONTEXT_ERROR_GET_BINARY_FAILED", "the context binary cannot be made"),
    ErrorCode(
        5008,
        "QNN_CONTEXT_ERROR_BINARY_CONFIGURATION",
        "the context binary was made for another configuration",
    ),
    ErrorCode(5009, "QNN_CONTEXT_ERROR_SET_PROFILE", "profiling cannot be set for the context"),
    ErrorCode(5010, "QNN_CONTEXT_ERROR_INVALID_CONFIG", "an option of the context is not valid"),
    ErrorCode(5011, "QNN_CONTEXT_ERROR_BINARY_SUBOPTIMAL", "the context binary works, but was made for another chip"),
    ErrorCode(5012, "QNN_CONTEXT_ERROR_ABORTED", "stopped by a signal"),
    ErrorCode(5013, "QNN_CONTEXT_ERROR_TIMED_OUT", "the time of its signal is over"),
    ErrorCode(5014, "QNN_CONTEXT_ERROR_INCREMENT_INVALID_BUFFER", "the buffer of an incremental binary is not valid"),
    # 6000: graphs
    ErrorCode(6000, "QNN_GRAPH_ERROR_INVALID_ARGUMENT", "an argument is not valid"),
    ErrorCode(6001, "QNN_GRAPH_ERROR_INVALID_HANDLE", "the graph's handle is not valid"),
    ErrorCode(6002, "QNN_GRAPH_ERROR_GRAPH_DOES_NOT_EXIST", "there is no graph of this name"),
    ErrorCode(
        6003,
        "QNN_GRAPH_ERROR_INVALID_NAME",
        "the name is taken or empty",
        "give each graph and node its own name",
    ),
    ErrorCode(
        6004,
        "QNN_GRAPH_ERROR_INVALID_TENSOR",
        "a tensor is not valid here",
        "create it in this graph first; execute takes exactly the graph's inputs and outputs",
    ),
    ErrorCode(6005, "QNN_GRAPH_ERROR_INVALID_OP_CONFIG", "the node's op config is not valid"),
    ErrorCode(6006, "QNN_GRAPH_ERROR_SET_PROFILE", "profiling cannot be set for the graph"),
    ErrorCode(6007, "QNN_GRAPH_ERROR_UNCONNECTED_NODE", "a node reads a tensor that no earlier node writes"),
    ErrorCode(6020, "QNN_GRAPH_ERROR_CREATE_FAILED", "the graph cannot be made"),
    ErrorCode(6021, "QNN_GRAPH_ERROR_OPTIMIZATION_FAILED", "the graph cannot be optimized"),
    ErrorCode(
        6022,
        "QNN_GRAPH_ERROR_FINALIZE_FAILED",
        "the graph cannot be finalized",
        "it must have a node; the op's createOpImpl runs here, so its log lines tell more",
    ),
    ErrorCode(
        6023,
        "QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED",
        "the graph is not finalized",
        "finalize it before execute",
    ),
    ErrorCode(6024, "QNN_GRAPH_ERROR_GRAPH_FINALIZED", "the graph is finalized and cannot be changed any more"),
    ErrorCode(6025, "QNN_GRAPH_ERROR_EXECUTION_ASYNC_FIFO_FULL", "too many executions are waiting"),
    ErrorCode(6030, "QNN_GRAPH_ERROR_SIGNAL_IN_USE", "the signal belongs to another call"),
    ErrorCode(6031, "QNN_GRAPH_ERROR_ABORTED", "stopped by a signal"),
    ErrorCode(6032, "QNN_GRAPH_ERROR_PROFILE_IN_USE", "the profile belongs to another call"),
    ErrorCode(6033, "QNN_GRAPH_ERROR_TIMED_OUT", "the time of its signal is over"),
    ErrorCode(6034, "QNN_GRAPH_ERROR_SUBGRAPH", "this is not possible with a subgraph"),
    ErrorCode(6035, "QNN_GRAPH_ERROR_DISABLED", "the graph was not enabled when its context was restored"),
    ErrorCode(6036, "QNN_GRAPH_ERROR_DYNAMIC_TENSOR_SHAPE", "a tensor's dynamic shape is not one the graph takes"),
    ErrorCode(6037, "QNN_GRAPH_ERROR_TENSOR_SPARSITY", "a tensor's sparsity is not one the graph takes"),
    ErrorCode(6038, "QNN_GRAPH_ERROR_EARLY_TERMINATION", "an op ended the execution early"),
    ErrorCode(6039, "QNN_GRAPH_ERROR_INVALID_CONTEXT", "the graph's context is gone"),
    # 7000: tensors
    ErrorCode(7001, "QNN_TENSOR_ERROR_INVALID_HANDLE", "the handle given with the tensor is not valid"),
    ErrorCode(7002, "QNN_TENSOR_ERROR_DOES_NOT_EXIST", "there is no such tensor"),
    ErrorCode(
        7003,
        "QNN_TENSOR_ERROR_ALREADY_EXISTS",
        "a tensor of this name exists",
        "give each tensor its own name",
    ),
    ErrorCode(
        7004,
        "QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM",
        "the tensor's rank, shape, type, data or quantization is not valid",
        "static tensors need data, fixed-point tensors a scale and an offset",
    ),
    ErrorCode(7005, "QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM", "the backend does not have tensors of this kind"),
    ErrorCode(7006, "QNN_TENSOR_ERROR_NAME_HASH_COLLISION", "two tensors' names collide", "rename one of them"),
    ErrorCode(7007, "QNN_TENSOR_ERROR_INCOMPATIBLE_TENSOR_UPDATE", "the update does not fit the tensor"),
    # 8000: memory
    ErrorCode(8000, "QNN_MEM_ERROR_INVALID_ARGUMENT", "an argument is not valid"),
    ErrorCode(8001, "QNN_MEM_ERROR_INVALID_HANDLE", "the memory's handle is not valid"),
    ErrorCode(8002, "QNN_MEM_ERROR_ALREADY_REGISTERED", "this memory is registered already"),
    ErrorCode(8003, "QNN_MEM_ERROR_MAPPING", "the memory cannot be mapped"),
    ErrorCode(8004, "QNN_MEM_ERROR_INVALID_SHAPE", "the memory's shape is not valid"),
    ErrorCode(8005, "QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE", "the backend does not take memory of this kind"),
    # 9000: signals
    ErrorCode(9000, "QNN_SIGNAL_ERROR_SIGNAL_IN_USE", "the signal is in use"),
    ErrorCode(9001, "QNN_SIGNAL_ERROR_SIGNAL_IDLE", "the signal is not in use"),
    ErrorCode(9002, "QNN_SIGNAL_ERROR_INVALID_ARGUMENT", "an argument is not valid"),
    ErrorCode(9003, "QNN_SIGNAL_ERROR_INVALID_HANDLE", "the signal's handle is not valid"),
    ErrorCode(9004, "QNN_SIGNAL_ERROR_TIMEOUT", "the time of the signal is over"),
    ErrorCode(9005, "QNN_SIGNAL_ERROR_INCOMPATIBLE_SIGNAL_TYPE", "a signal of this kind cannot do that"),
    # 10000 and on: errors, logs, profiles, devices, global configs
    ErrorCode(10000, "QNN_ERROR_INVALID_ARGUMENT", "an argument is not valid"),
    ErrorCode(10001, "QNN_ERROR_INVALID_ERROR_HANDLE", "there is no such error"),
    ErrorCode(11002, "QNN_LOG_ERROR_INITIALIZATION", "the log cannot be made"),
    ErrorCode(11003, "QNN_LOG_ERROR_INVALID_ARGUMENT", "an argument is not valid"),
    ErrorCode(11004, "QNN_LOG_ERROR_INVALID_HANDLE", "the log's handle is not valid"),
    ErrorCode(12000, "QNN_PROFILE_ERROR_INVALID_HANDLE", "the profile's handle is not valid"),
    ErrorCode(12001, "QNN_PROFILE_ERROR_HANDLE_IN_USE", "the profile belongs to something that still lives"),
    ErrorCode(12002, "QNN_PROFILE_ERROR_INCOMPATIBLE_EVENT", "the event has no data of this kind"),
    ErrorCode(14000, "QNN_DEVICE_ERROR_INVALID_HANDLE", "the device's handle is not valid"),
    ErrorCode(
        14001,
        "QNN_DEVICE_ERROR_INVALID_CONFIG",
        "an option of the device is not valid",
        "on a device this is often a skel library that is not found: ADSP_LIBRARY_PATH, separated by ;",
    ),
    ErrorCode(14002, "QNN_DEVICE_ERROR_HARDWARE_UNAVAILABLE", "the hardware is not there, or busy"),
    ErrorCode(14003, "QNN_DEVICE_ERROR_ASSOCIATED_TO_CONTEXT", "a context still uses the device", "free it first"),
    ErrorCode(15000, "QNN_GLOBAL_CONFIG_ERROR_INVALID_CONFIG", "an option for the whole process is not valid"),
    # 30000: libQnnSystem
    ErrorCode(
        30000,
        "QNN_SYSTEM_CONTEXT_ERROR_INVALID_HANDLE",
        "the handle is not valid",
        aliases=("QNN_SYSTEM_PROFILE_ERROR_INVALID_HANDLE",),
    ),
    ErrorCode(
        30001,
        "QNN_SYSTEM_CONTEXT_ERROR_INVALID_ARGUMENT",
        "an argument is not valid",
        aliases=("QNN_SYSTEM_PROFILE_ERROR_INVALID_ARGUMENT",),
    ),
    ErrorCode(30002, "QNN_SYSTEM_CONTEXT_ERROR_OPERATION_FAILED", "the operation failed"),
    ErrorCode(
        30010,
        "QNN_SYSTEM_CONTEXT_ERROR_MALFORMED_BINARY",
        "this is not a context binary, or a damaged one",
        "make the context binary anew",
    ),
    ErrorCode(31000, "QNN_SYSTEM_PROFILE_ERROR_MEM_ALLOC", "out of memory"),
    ErrorCode(
        0x7FFFFFFF,
        "QNN_COMMON_ERROR_UNDEFINED",
        "an error without a meaning",
        aliases=(
            *(f"QNN_{part}_ERROR_UNDEFINED" for part in (*_PARTS, "PROPERTY", "GLOBAL_CONFIG")),
            "QNN_ERROR_UNDEFINED",
        ),
    ),
)
