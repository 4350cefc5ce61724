"""Error numbers of one backend's own headers (SDK 2.43), which ours leave out."""

from __future__ import annotations

from udogen.qnn.codes import ErrorCode

ALL = (
    ErrorCode(4950, "QNN_SAVER_ERROR_DUMMY_RETVALUE", "libQnnSaver only writes calls down, it has no answer"),
    ErrorCode(4951, "QNN_SAVER_ERROR_ALREADY_INSTANTIATED", "libQnnSaver is in use already, in this process"),
    ErrorCode(
        13000,
        "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_HANDLE_PTR",
        "the handle of the power settings is not valid",
        aliases=("QNN_DSP_PERF_INFRASTRUCTURE_ERROR_INVALID_HANDLE_PTR",),
    ),
    ErrorCode(
        13001,
        "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_INPUT",
        "a power setting is not valid",
        aliases=("QNN_DSP_PERF_INFRASTRUCTURE_ERROR_INVALID_INPUT",),
    ),
    ErrorCode(
        13002,
        "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED_CONFIG",
        "this device does not have such a power setting",
        aliases=("QNN_DSP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED_CONFIG",),
    ),
    ErrorCode(
        13003,
        "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_TRANSPORT",
        "the power settings could not be brought to the processor",
        aliases=("QNN_DSP_PERF_INFRASTRUCTURE_ERROR_TRANSPORT",),
    ),
    ErrorCode(
        13004,
        "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED",
        "power settings are not supported here",
        aliases=("QNN_DSP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED",),
    ),
    ErrorCode(
        13005,
        "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_MEM_ALLOC",
        "out of memory for power settings; of the DSP backend: they failed",
        aliases=("QNN_DSP_PERF_INFRASTRUCTURE_ERROR_FAILED",),
    ),
    ErrorCode(13006, "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_FAILED", "the power settings failed"),
)
