"""Numbers of SNPE 2.x.  From 2000 on they are QNN's, each 1000 more than QNN itself says."""

from __future__ import annotations

from typing import NamedTuple

from udogen.qnn import codes

QNN_FROM, QNN_TO, SHIFT = 2000, 17000, 1000


class Row(NamedTuple):
    """One number; an empty meaning is made of the name and its part."""

    code: int
    name: str
    meaning: str = ""


# What the numbers of a hundred or so are about.
_PARTS = {
    0: "SNPE's C API",
    100: "the configuration of the builder",
    200: "tensors and buffers",
    300: "the DLC file",
    400: "the network",
    500: "the host",
    600: "the CPU runtime",
    700: "the fixed-point CPU runtime",
    800: "the GPU runtime",
    900: "the DSP runtime",
    1000: "checking the model",
    1100: "layers of your own: UDL and UDO",
    1200: "the C++ library",
    1300: "storage",
    1400: "the AIP runtime",
    1500: "the cache in the DLC",
    1600: "running several at once",
    1700: "memory",
}
_WORDS = {
    "FAILED": "failed",
    "UDO": "UDO",
    "DSP": "",
    "GPU": "",
    "CPU": "",
    "FXP": "",
    "AIP": "",
    "NNCONFIG": "network configuration",
    "DIM": "dimension",
    "IO": "inputs and outputs",
    "DLCONTAINER": "",
    "DLSYSTEM": "",
    "CONFIG": "",
    "NETWORK": "",
}

ALL = (
    Row(10, "CAPI_CREATE_FAILURE"),
    Row(11, "CAPI_HANDLEGEN_FAILURE"),
    Row(12, "CAPI_DELETE_FAILURE"),
    Row(13, "CAPI_BAD_HANDLE", "a handle is not valid: mostly what made it has failed before"),
    Row(14, "CAPI_BAD_ARGUMENT", "an argument is not valid"),
    Row(15, "CAPI_BAD_ALLOC", "out of memory"),
    Row(100, "CONFIG_MISSING_PARAM"),
    Row(101, "CONFIG_INVALID_PARAM"),
    Row(102, "CONFIG_MISSING_FILE"),
    Row(103, "CONFIG_NNCONFIG_NOT_SET"),
    Row(104, "CONFIG_NNCONFIG_INVALID"),
    Row(105, "CONFIG_WRONG_INPUT_NAME", "the network has no input of this name"),
    Row(106, "CONFIG_INCORRECT_INPUT_DIMENSIONS", "an input has another shape than the network's"),
    Row(107, "CONFIG_DIMENSIONS_MODIFICATION_NOT_SUPPORTED", "this network cannot be resized"),
    Row(
        108, "CONFIG_BOTH_OUTPUT_LAYER_TENSOR_NAMES_SET", "give names of output layers, or of output tensors, not both"
    ),
    Row(120, "CONFIG_NNCONFIG_ONLY_TENSOR_SUPPORTED"),
    Row(121, "CONFIG_NNCONFIG_ONLY_USER_BUFFER_SUPPORTED"),
    Row(200, "DLSYSTEM_MISSING_BUFFER"),
    Row(201, "DLSYSTEM_TENSOR_CAST_FAILED"),
    Row(202, "DLSYSTEM_FIXED_POINT_PARAM_INVALID"),
    Row(203, "DLSYSTEM_SIZE_MISMATCH", "a buffer has not the size of its tensor"),
    Row(204, "DLSYSTEM_NAME_NOT_FOUND"),
    Row(205, "DLSYSTEM_VALUE_MISMATCH"),
    Row(206, "DLSYSTEM_INSERT_FAILED"),
    Row(207, "DLSYSTEM_TENSOR_FILE_READ_FAILED"),
    Row(208, "DLSYSTEM_DIAGLOG_FAILURE"),
    Row(209, "DLSYSTEM_LAYER_NOT_SET"),
    Row(210, "DLSYSTEM_WRONG_NUMBER_INPUT_BUFFERS"),
    Row(211, "DLSYSTEM_RUNTIME_TENSOR_SHAPE_MISMATCH"),
    Row(212, "DLSYSTEM_TENSOR_MISSING"),
    Row(213, "DLSYSTEM_TENSOR_ITERATION_UNSUPPORTED"),
    Row(214, "DLSYSTEM_BUFFER_MANAGER_MISSING"),
    Row(215, "DLSYSTEM_RUNTIME_BUFFER_SOURCE_UNSUPPORTED"),
    Row(216, "DLSYSTEM_BUFFER_CAST_FAILED"),
    Row(217, "DLSYSTEM_WRONG_TRANSITION_TYPE"),
    Row(218, "DLSYSTEM_LAYER_ALREADY_REGISTERED"),
    Row(219, "DLSYSTEM_TENSOR_DIM_INVALID"),
    Row(240, "DLSYSTEM_BUFFERENCODING_UNKNOWN"),
    Row(241, "DLSYSTEM_BUFFER_INVALID_PARAM"),
    Row(300, "DLCONTAINER_MODEL_PARSING_FAILED"),
    Row(301, "DLCONTAINER_UNKNOWN_LAYER_CODE"),
    Row(302, "DLCONTAINER_MISSING_LAYER_PARAM"),
    Row(303, "DLCONTAINER_LAYER_PARAM_NOT_SUPPORTED"),
    Row(304, "DLCONTAINER_LAYER_PARAM_INVALID"),
    Row(305, "DLCONTAINER_TENSOR_DATA_MISSING"),
    Row(306, "DLCONTAINER_MODEL_LOAD_FAILED"),
    Row(307, "DLCONTAINER_MISSING_RECORDS"),
    Row(308, "DLCONTAINER_INVALID_RECORD"),
    Row(309, "DLCONTAINER_WRITE_FAILURE"),
    Row(310, "DLCONTAINER_READ_FAILURE"),
    Row(311, "DLCONTAINER_BAD_CONTAINER", "this is no DLC, or a damaged one"),
    Row(312, "DLCONTAINER_BAD_DNN_FORMAT_VERSION", "the DLC is of another version of SNPE"),
    Row(313, "DLCONTAINER_UNKNOWN_AXIS_ANNOTATION"),
    Row(314, "DLCONTAINER_UNKNOWN_SHUFFLE_TYPE"),
    Row(315, "DLCONTAINER_TEMP_FILE_FAILURE"),
    Row(400, "NETWORK_EMPTY_NETWORK"),
    Row(401, "NETWORK_CREATION_FAILED"),
    Row(402, "NETWORK_PARTITION_FAILED", "the network cannot be divided among the runtimes"),
    Row(403, "NETWORK_NO_OUTPUT_DEFINED"),
    Row(404, "NETWORK_MISMATCH_BETWEEN_NAMES_AND_DIMS"),
    Row(405, "NETWORK_MISSING_INPUT_NAMES"),
    Row(406, "NETWORK_MISSING_OUTPUT_NAMES"),
    Row(407, "NETWORK_EXECUTION_FAILED"),
    Row(500, "HOST_RUNTIME_TARGET_UNAVAILABLE", "the runtime that was asked for is not on this device"),
    Row(600, "CPU_LAYER_NOT_SUPPORTED"),
    Row(601, "CPU_LAYER_PARAM_NOT_SUPPORTED"),
    Row(602, "CPU_LAYER_PARAM_INVALID"),
    Row(603, "CPU_LAYER_PARAM_COMBINATION_INVALID"),
    Row(604, "CPU_BUFFER_NOT_FOUND"),
    Row(605, "CPU_NETWORK_NOT_SUPPORTED"),
    Row(606, "CPU_UDO_OPERATION_FAILED", "the CPU implementation of a UDO answered with an error"),
    Row(700, "CPU_FXP_LAYER_NOT_SUPPORTED"),
    Row(701, "CPU_FXP_LAYER_PARAM_NOT_SUPPORTED"),
    Row(702, "CPU_FXP_LAYER_PARAM_INVALID"),
    Row(703, "CPU_FXP_OPTION_INVALID"),
    Row(800, "GPU_LAYER_NOT_SUPPORTED"),
    Row(801, "GPU_LAYER_PARAM_NOT_SUPPORTED"),
    Row(802, "GPU_LAYER_PARAM_INVALID"),
    Row(803, "GPU_LAYER_PARAM_COMBINATION_INVALID"),
    Row(804, "GPU_KERNEL_COMPILATION_FAILED", "an OpenCL kernel does not compile"),
    Row(805, "GPU_CONTEXT_NOT_SET"),
    Row(806, "GPU_KERNEL_NOT_SET"),
    Row(807, "GPU_KERNEL_PARAM_INVALID"),
    Row(808, "GPU_OPENCL_CHECK_FAILED"),
    Row(809, "GPU_OPENCL_FUNCTION_ERROR"),
    Row(810, "GPU_BUFFER_NOT_FOUND"),
    Row(811, "GPU_TENSOR_DIM_INVALID"),
    Row(812, "GPU_MEMORY_FLAGS_INVALID"),
    Row(813, "GPU_UNEXPECTED_NUMBER_OF_IO"),
    Row(814, "GPU_LAYER_PROXY_ERROR"),
    Row(815, "GPU_BUFFER_IN_USE"),
    Row(816, "GPU_BUFFER_MODIFICATION_ERROR"),
    Row(817, "GPU_DATA_ARRANGEMENT_INVALID"),
    Row(818, "GPU_UDO_OPERATION_FAILED", "the GPU implementation of a UDO answered with an error"),
    Row(900, "DSP_LAYER_NOT_SUPPORTED"),
    Row(901, "DSP_LAYER_PARAM_NOT_SUPPORTED"),
    Row(902, "DSP_LAYER_PARAM_INVALID"),
    Row(903, "DSP_LAYER_PARAM_COMBINATION_INVALID"),
    Row(904, "DSP_STUB_NOT_PRESENT", "the library for the way to the DSP (stub) is not found"),
    Row(905, "DSP_LAYER_NAME_TRUNCATED"),
    Row(906, "DSP_LAYER_INPUT_BUFFER_NAME_TRUNCATED"),
    Row(907, "DSP_LAYER_OUTPUT_BUFFER_NAME_TRUNCATED"),
    Row(908, "DSP_RUNTIME_COMMUNICATION_ERROR", "no connection to the DSP"),
    Row(909, "DSP_RUNTIME_INVALID_PARAM_ERROR"),
    Row(910, "DSP_RUNTIME_SYSTEM_ERROR", "the DSP's side failed"),
    Row(911, "DSP_RUNTIME_CRASHED_ERROR", "the process on the DSP has crashed"),
    Row(912, "DSP_BUFFER_SIZE_ERROR"),
    Row(913, "DSP_UDO_EXECUTE_ERROR", "the DSP implementation of a UDO answered with an error"),
    Row(914, "DSP_UDO_LIB_NOT_REGISTERED_ERROR", "the DSP does not have the implementation library of a UDO"),
    Row(915, "DSP_UDO_INVALID_QUANTIZATION_TYPE_ERROR", "a UDO has a type that its DSP implementation does not take"),
    Row(1000, "MODEL_VALIDATION_LAYER_NOT_SUPPORTED", "a layer is not supported on the runtime that was asked for"),
    Row(1001, "MODEL_VALIDATION_LAYER_PARAM_NOT_SUPPORTED"),
    Row(1002, "MODEL_VALIDATION_LAYER_PARAM_INVALID"),
    Row(1003, "MODEL_VALIDATION_LAYER_PARAM_MISSING"),
    Row(1004, "MODEL_VALIDATION_LAYER_PARAM_COMBINATION_INVALID"),
    Row(1005, "MODEL_VALIDATION_LAYER_ORDERING_INVALID"),
    Row(1006, "MODEL_VALIDATION_INVALID_CONSTRAINT"),
    Row(1007, "MODEL_VALIDATION_MISSING_BUFFER"),
    Row(1008, "MODEL_VALIDATION_BUFFER_REUSE_NOT_SUPPORTED"),
    Row(1009, "MODEL_VALIDATION_LAYER_COULD_NOT_BE_ASSIGNED", "no runtime takes a layer"),
    Row(1010, "MODEL_VALIDATION_UDO_LAYER_FAILED", "a UDO of the model does not fit what is registered"),
    Row(1100, "UDL_LAYER_EMPTY_UDL_NETWORK"),
    Row(1101, "UDL_LAYER_PARAM_INVALID"),
    Row(1102, "UDL_LAYER_INSTANCE_MISSING"),
    Row(1103, "UDL_LAYER_SETUP_FAILED"),
    Row(1104, "UDL_EXECUTE_FAILED"),
    Row(1105, "UDL_BUNDLE_INVALID"),
    Row(1106, "UDO_REGISTRATION_FAILED", "a UDO package cannot be registered"),
    Row(1107, "UDO_GET_PACKAGE_FAILED", "the package of a UDO is not registered"),
    Row(1108, "UDO_GET_IMPLEMENTATION_FAILED", "an implementation library of a UDO cannot be loaded"),
    Row(1200, "STD_LIBRARY_ERROR"),
    Row(1210, "UNKNOWN_EXCEPTION"),
    Row(1300, "STORAGE_INVALID_KERNEL_REPO"),
    Row(1400, "AIP_LAYER_NOT_SUPPORTED"),
    Row(1401, "AIP_LAYER_PARAM_NOT_SUPPORTED"),
    Row(1402, "AIP_LAYER_PARAM_INVALID"),
    Row(1403, "AIP_LAYER_PARAM_COMBINATION_INVALID"),
    Row(1404, "AIP_STUB_NOT_PRESENT"),
    Row(1408, "AIP_RUNTIME_COMMUNICATION_ERROR"),
    Row(1409, "AIP_RUNTIME_INVALID_PARAM_ERROR"),
    Row(1410, "AIP_RUNTIME_SYSTEM_ERROR"),
    Row(1500, "DLCACHING_INVALID_METADATA"),
    Row(1501, "DLCACHING_INVALID_INITBLOB"),
    Row(1502, "DLCACHING_SUBOPTIMAL_CACHE", "the cache in the DLC was made for another chip; it is used all the same"),
    Row(1503, "DLCACHING_INCOMPATIBLE", "the cache in the DLC is of another version, or for another chip"),
    Row(1600, "INFRA_CLUSTERMGR_INSTANCE_INVALID"),
    Row(1601, "INFRA_CLUSTERMGR_EXECUTE_SYNC_FAILED"),
    Row(1700, "MEMORY_CORRUPTION_ERROR"),
)
PREFIX = "SNPE_ERRORCODE_"
_BY_CODE = {row.code: row for row in ALL}


def find(code: int) -> Row | None:
    """The row of SNPE's own number, or of QNN's in disguise."""
    if row := _BY_CODE.get(code):
        return row._replace(name=PREFIX + row.name, meaning=row.meaning or _made(row))
    inner = qnn_code(code)
    if inner is None:
        return None
    found = codes.describe(inner)
    return Row(code, f"{PREFIX}{found.name}", found.meaning)


def qnn_code(code: int) -> int | None:
    """The number of QNN that a number of SNPE stands for; None where it is SNPE's own."""
    inner = code - SHIFT
    if not QNN_FROM <= code < QNN_TO or codes.describe(inner).code != inner:
        return None
    return None if codes.describe(inner).name.startswith("UNKNOWN") else inner


def _made(row: Row) -> str:
    """A name as words: DSP_LAYER_PARAM_INVALID is `the DSP runtime: layer param invalid`."""
    part = _PARTS[row.code // 100 * 100]
    words = " ".join(filter(None, (_WORDS.get(word, word.lower()) for word in row.name.split("_"))))
    return f"{part}: {words}"
