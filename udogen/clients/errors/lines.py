"""Lines that programs are known to log, one row each: what they mean, and why they come."""

from __future__ import annotations

import re
from typing import NamedTuple

from udogen.clients.errors import causes_of_clients as causes
from udogen.clients.errors.causes import SKEL as _SKEL
from udogen.clients.errors.model import Cause


class Line(NamedTuple):
    """A line of a log.  `meaning` may name groups of the pattern: {lib}."""

    id: str
    said: re.Pattern[str]
    meaning: str
    known: tuple[Cause, ...]


def _line(id: str, said: str, meaning: str, *known: Cause) -> Line:
    return Line(id, re.compile(said), meaning, known)


_NOT_REGISTERED = causes.of("qnn", 4005)
_ORT = "measured: ONNX Runtime 1.27 with onnxruntime-qnn 2.3.0"

ALL = (
    # --- the way to the DSP ---
    _line(
        "stub-mismatch",
        r"[Ss]tub lib id mismatch: expected \((?P<expected>[^)]*)\), detected \((?P<detected>[^)]*)\)",
        "libQnnHtp.so is of {expected}, the stub beside it of {detected}",
        _SKEL[3],
    ),
    _line(
        "skel-mismatch",
        r"[Ss]kel lib id mismatch: expected \((?P<expected>[^)]*)\), detected \((?P<detected>[^)]*)\)",
        "libQnnHtp.so is of {expected}, the skel that the DSP loaded of {detected}: an older one is found first",
        Cause(
            "a skel of the system is found before yours",
            "put your folder first in ADSP_LIBRARY_PATH",
            "qualcomm/ai-hub-apps #158",
        ),
        _SKEL[3],
    ),
    _line(
        "colon-path",
        r"(?:ADSP|DSP)_LIBRARY_PATH\b[^;]*?[=: ]['\"\\]*(?P<path>/[^;'\"\s:]*:/[^;'\"\s]*)",
        "a path for the DSP's loader is separated by `:` ({path}); it takes that for the name of one folder",
        _SKEL[0],
    ),
    _line(
        "colon-search",
        r"fopen\w* (?:failed|done)[^\n]*? for (?P<path>/[^\s:;]+:/\S+)",
        "the DSP's loader looked for {path}: a list separated by `:` became the name of one folder",
        _SKEL[0],
    ),
    _line(
        "signature",
        r"signature verif\w+ (?:start )?failed|failed signature verification",
        "the DSP wants a signed library",
        *causes.of("dsp", 0x38),
    ),
    _line(
        "no-skel",
        r"Unable to load Skel Library|Failed to load skel|cannot open session, error"
        r"|dlopen_ex failed for (?P<lib>\S+)|remote_handle_open_domain: dynamic loading failed",
        "the DSP did not load a library: the skel, or an op package for Hexagon",
        *_SKEL,
        causes.of("dsp", 6)[4],
    ),
    _line(
        "remote-symbols",
        r"Unable to load Remote symbols",
        "the library for FastRPC, or the stub, cannot be loaded on the side of ARM",
        *causes.of("qnn", 4000)[:2],
        _SKEL[3],
    ),
    _line(
        "not-accessible",
        r"library \"(?P<lib>[^\"]+)\" (?:needed or dlopened by \S+ )?is not accessible for the namespace",
        "Android does not let this app load {lib}",
        causes.of("qnn", 4000)[0],
    ),
    _line(
        "avc",
        r"avc: +denied .*(?:adsprpc|fastrpc|xdsp|dma_heap)",
        "SELinux keeps this process from the DSP",
        Cause(
            "a platform app, or a service, without a rule for the DSP",
            "an ordinary app, adb's shell, or a rule for vendor_xdsp_device",
            "qualcomm/fastrpc #266",
        ),
    ),
    # --- HTP ---
    _line(
        "tcm",
        r"[Rr]equires (?P<need>0x[0-9a-fA-F]+|\d+) bytes",
        "an op needs {need} bytes of the processor's own memory (TCM) at once, more than there is",
        causes.of("qnn", 1002)[0],
    ),
    _line(
        "twice",
        r"Memory properties specified twice for operator (?P<op>\S+)",
        "the package declares where {op} has its tensors twice",
        causes.of("qnn", 1002)[2],
    ),
    _line(
        "undefined",
        r"(?:undefined symbol|cannot locate symbol):? \"?(?P<symbol>[\w@.]+)",
        "a library needs the symbol {symbol}, and nobody who is loaded has it",
        _NOT_REGISTERED[2],
        Cause(
            "it is linked against another library than the one that is there",
            "udogen inspect LIBRARY",
            "measured: libQnnCpu 2.47",
        ),
    ),
    _line(
        "wrong-elf",
        r"wrong ELF class: ELFCLASS\d+|has unexpected e_machine: \d+|is for EM_\w+ \(\d+\) instead of EM_\w+",
        "a library is built for another machine than the process that loads it",
        Cause(
            "the library of the other target was taken: ARM and Hexagon ones have the same name",
            "udogen inspect LIBRARY; `udogen register` chooses",
            "measured: inspected libraries of all targets",
        ),
    ),
    _line(
        "mapping",
        r"fastrpc memory map for fd: \d+ with length: (?P<length>\d+) failed",
        "{length} bytes cannot be mapped for the DSP",
        causes.of("qnn", 1002)[1],
    ),
    # --- clients ---
    _line(
        "ort-package-error",
        r"Invalid op_package passed, expected .*got (?P<entry>.*)",
        "ONNX Runtime skips the entry {entry} of op_packages; its op falls back to ONNX Runtime's own CPU",
        Cause("a `:` or `,` in a path, or a field is missing", "`udogen register … --client ort` prints it", _ORT),
    ),
    _line(
        "ort-registration",
        r"Failed to register op package to backend",
        "ONNX Runtime could not register an op package; the whole provider is lost, everything runs on its CPU",
        *causes.of("qnn", 4007)[:1],
        *_NOT_REGISTERED[:2],
    ),
    _line(
        "ort-context-cache",
        r"Qnn context cache only works for",
        "ONNX Runtime makes context binaries (ep.context_enable) for HTP, DSP, GPU alone, and now runs all on its CPU",
        Cause("the backend is the CPU", "leave ep.context_enable out, or take HTP", _ORT),
    ),
    _line(
        "ort-cpu-fallback",
        r"Qnn CPU backend is loaded while CPU fallback is disabled",
        "QNN's CPU backend does not start in a session with session.disable_cpu_ep_fallback",
        Cause("it was asked for", "leave it out with this backend; udogen.clients.ort looks where nodes are", _ORT),
    ),
    _line(
        "ort-options-again",
        r"Provider \S+ has already been registered",
        "these SessionOptions were used for another session, and still hold its provider",
        Cause("one object for two sessions", "new SessionOptions for each session", _ORT),
    ),
    _line(
        "ort-version",
        r"OrtEp has invalid ort_version_supported=0",
        "this onnxruntime does not take this onnxruntime-qnn",
        causes.of("ort", 1)[0],
    ),
    _line(
        "ort-lost",
        r"GetCapability\(\) for \S+ failed with error: (?:\[ONNXRuntimeError\] : \d+ : \w+ : )?(?P<why>.*)",
        "the whole provider is lost, everything runs on ONNX Runtime's own CPU: {why}",
        Cause("what it says", "the lines before say more; so does log_severity_level=0", _ORT),
    ),
    _line(
        "ort-not-taken",
        r"Name:'\S*?(?P<op>[A-Za-z]\w*?)_was_not_taken_by_QNN",
        "op {op} was not taken by QNN, and its schema from udogen was executed in its place, which only fails",
        Cause(
            "its package is not registered, or refused the node",
            "open it with udogen.clients.ort, which says why",
            _ORT,
        ),
    ),
    _line(
        "ort-no-schema",
        r"(?P<op>\S+) is not a registered function/op|No [Oo]p registered for (?P<other>\S+)",
        "ONNX Runtime has no schema of a custom op",
        causes.of("ort", 1)[1],
    ),
    _line(
        "ort-fallback",
        r"assigned to the default CPU EP, but fallback to CPU EP has been explicitly disabled",
        "some nodes were not taken by QNN; which, the verbose log says",
        Cause(
            "an op, a type or a shape that the backend does not take",
            "log_severity_level=0, then `udogen explain LOG`",
            "microsoft/onnxruntime #26845",
        ),
        Cause("QNN did not start at all", "look for a line of the provider before", "microsoft/onnxruntime #26845"),
    ),
    _line(
        "et-registration",
        r"\[Qnn ExecuTorch\]:? *Failed to register op package:? *(?P<lib>[^,]*?) *, *error=(?P<code>\d+)",
        "ExecuTorch could not register {lib} ({code}), and goes on without it",
        *_NOT_REGISTERED,
    ),
    _line(
        "et-platform",
        r"Failed to detect the platform\. Only support x86_64 or android",
        "ExecuTorch registers op packages on x86-64 Linux and Android alone; all were skipped",
        Cause("this is Linux on ARM, or another system", "run it on Android", "pytorch/executorch #22659"),
    ),
    _line(
        "malformed",
        r"Malformed opPackageString provided: (?P<entry>.*)",
        "qnn-net-run does not understand {entry}",
        Cause(
            "a `:` in the path, or no interface provider",
            "PATH:PROVIDER[:TARGET], joined by `,`",
            "documented: QNN SampleApp",
        ),
    ),
    _line(
        "net-run-registration",
        r"Could not register Op Package: (?P<lib>.*?) and interface provider: (?P<provider>\S+)",
        "{lib} was not registered with {provider}",
        *_NOT_REGISTERED[:4],
        *causes.of("qnn", 4006)[:1],
    ),
    _line(
        "litert-no-package",
        r"No custom package registered for custom op",
        "LiteRT knows of no op package, and leaves the custom op to the CPU",
        Cause(
            "--qualcomm_custom_op_package is missing, or its name is empty",
            "`udogen register … --client litert`",
            "documented: LiteRT, CUSTOM_OP_INSTRUCTIONS",
        ),
    ),
    _line(
        "litert-ignored",
        r"Custom op package is only supported on HtpBackend",
        "LiteRT ignores op packages on every backend but HTP",
        Cause("the backend is not htp", "--qualcomm_backend=htp", "documented: LiteRT, backend_factory.cc"),
    ),
    _line(
        "genie-key",
        r"Unknown (?P<part>\S+) config key: (?P<key>\S+)",
        "Genie's configuration has no key {key}; it has none for op packages either",
        Cause(
            "the key does not exist in this version",
            "leave it out; see `udogen register … --client genie`",
            "documented: Genie, Dialog JSON",
        ),
    ),
)


class Number(NamedTuple):
    """How a program prints a number of an interface; the group `code` is it."""

    family: str
    said: re.Pattern[str]


NUMBERS = (
    Number("dsp", re.compile(r"\b(?P<code>0x8000[0-9a-fA-F]{4}|0xffffffff8000[0-9a-fA-F]{4}|-214748[0-9]{4})\b")),
    Number("snpe", re.compile(r"\berror_code=(?P<code>\d+)")),
    Number("ort", re.compile(r"\[ONNXRuntimeError\] : (?P<code>\d+) :")),
    Number("litert", re.compile(r"\b(?P<code>kLiteRtStatus\w*Error\w+)")),
    Number("snpe", re.compile(r"\b(?P<code>SNPE_ERRORCODE_\w+)")),
    Number("qnn", re.compile(r"\b(?P<code>QNN_[A-Z_]*ERROR_[A-Z_]+)")),
    Number(
        "executorch",
        re.compile(
            r"(?:executorch|ExecuTorch|\.pte|[Mm]ethod|[Bb]ackend).*?"
            r"(?:status|failed with|error|: )\s*(?:code\s*)?(?P<code>0x[0-3]?[0-9a-f])\b"
        ),
    ),
    # QNN's own, and who passes them on: `error=4005`, `err: 1008`, `Error code 30010`, `with err 0x138b`.
    Number(
        "qnn",
        re.compile(
            r"\b(?:[Ee]rr(?:or)?(?:[ _][Cc]ode)?|[Ss]tatus|failed|info|symbols|config|returned)\s*(?:with|is)?\s*"
            r"(?:err(?:or)?(?: code)?)?\s*[:= ]?\s*(?P<code>\d{4,5}|0x[0-9a-fA-F]{3,4})\b"
        ),
    ),
)

# What is logged whatever happens, and looks like an error.
HARMLESS = (
    _line(
        "prepare-not-loaded",
        r"Function not called, PrepareLib isn't loaded",
        "harmless where graphs come from context binaries: nothing is prepared on the device",
    ),
    _line(
        "cost-based", r"Cost Based unsupported on soc", "harmless: the chip has no cost model, the usual one is used"
    ),
    _line("cpu-log", r"Logger hasn't been initialized", "harmless: logs began before the logger"),
    _line(
        "context-protocol",
        r"QnnContextCustomProtocol expected magic number",
        "harmless: ExecuTorch tries one format after the other",
    ),
    _line(
        "ort-success",
        r"Successfully register the op package",
        "no error: ONNX Runtime logs its success as one",
    ),
    _line("no-registered-op", r"No registered op found", "harmless for packages over QHPI: that is the older registry"),
)
