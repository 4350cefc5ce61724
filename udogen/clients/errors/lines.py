"""Lines that programs are known to log, one row each: what they mean, and why they come."""

from __future__ import annotations

import re
from typing import NamedTuple

from udogen.clients.errors import causes_of_clients as causes
from udogen.clients.errors import lines_of_executorch, lines_of_ort
from udogen.clients.errors.causes import SKEL as _SKEL
from udogen.clients.errors.model import Cause, line

_NOT_REGISTERED = causes.of("qnn", 4005)
_HTP = "measured: libQnnHtp 2.49"

ALL = (
    # --- the way to the DSP ---
    line(
        "stub-mismatch",
        r"[Ss]tub lib id mismatch: expected \((?P<expected>[^)]*)\), detected \((?P<detected>[^)]*)\)",
        "libQnnHtp.so is of {expected}, the stub beside it of {detected}",
        _SKEL[3],
    ),
    line(
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
    line(
        "colon-path",
        r"(?:ADSP|DSP)_LIBRARY_PATH\b[^;]*?[=: ]['\"\\]*(?P<path>/[^;'\"\s:]*:/[^;'\"\s]*)",
        "a path for the DSP's loader is separated by `:` ({path}); it takes that for the name of one folder",
        _SKEL[0],
    ),
    line(
        "colon-search",
        r"fopen\w* (?:failed|done)[^\n]*? for (?P<path>/[^\s:;]+:/\S+)",
        "the DSP's loader looked for {path}: a list separated by `:` became the name of one folder",
        _SKEL[0],
    ),
    line(
        "signature",
        r"signature verif\w+ (?:start )?failed|failed signature verification",
        "the DSP wants a signed library",
        *causes.of("dsp", 0x38),
    ),
    line(
        "no-skel",
        r"Unable to load Skel Library|Failed to load skel|cannot open session, error"
        r"|dlopen_ex failed for (?P<lib>\S+)|remote_handle_open_domain: dynamic loading failed",
        "the DSP did not load a library: the skel, or an op package for Hexagon",
        *_SKEL,
        causes.of("dsp", 6)[4],
    ),
    line(
        "remote-symbols",
        r"Unable to load Remote symbols",
        "the library for FastRPC, or the stub, cannot be loaded on the side of ARM",
        *causes.of("qnn", 4000)[:2],
        _SKEL[3],
    ),
    line(
        "not-accessible",
        r"library \"(?P<lib>[^\"]+)\" (?:needed or dlopened by \S+ )?is not accessible for the namespace",
        "Android does not let this app load {lib}",
        causes.of("qnn", 4000)[0],
    ),
    line(
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
    line(
        "tcm",
        r"[Rr]equires (?P<need>0x[0-9a-fA-F]+|\d+) bytes",
        "an op needs {need} bytes of the processor's own memory (TCM) at once, more than there is",
        causes.of("qnn", 1002)[0],
    ),
    line(
        "twice",
        r"Memory properties specified twice for operator (?P<op>\S+)",
        "the package declares where {op} has its tensors twice",
        causes.of("qnn", 1002)[2],
    ),
    line(
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
    line(
        "wrong-elf",
        r"wrong ELF class: ELFCLASS\d+|has unexpected e_machine: \d+|is for EM_\w+ \(\d+\) instead of EM_\w+",
        "a library is built for another machine than the process that loads it",
        Cause(
            "the library of the other target was taken: ARM and Hexagon ones have the same name",
            "udogen inspect LIBRARY; `udogen register` chooses",
            "measured: inspected libraries of all targets",
        ),
    ),
    line(
        "mapping",
        r"fastrpc memory map for fd: \d+ with length: (?P<length>\d+) failed",
        "{length} bytes cannot be mapped for the DSP",
        causes.of("qnn", 1002)[1],
    ),
    # --- clients ---
    line(
        "no-such-op",
        r"could not create op: (?P<package>\S+?)::(?P<op>\S+)",
        "HTP could not make op {op} of package {package}",
        Cause(
            "the package has no op of this name", "`udogen inspect LIBRARY` names its ops", "measured: libQnnHtp 2.49"
        ),
        Cause(
            "none of its kernels takes tensors of these types and layouts",
            "look for `Failed matching a kernel` before",
            "measured: libQnnHtp 2.49",
        ),
    ),
    line(
        "malformed",
        r"Malformed opPackageString provided: (?P<entry>.*)",
        "qnn-net-run does not understand {entry}",
        Cause(
            "a `:` in the path, or no interface provider",
            "PATH:PROVIDER[:TARGET], joined by `,`",
            "documented: QNN SampleApp",
        ),
    ),
    line(
        "net-run-registration",
        r"Could not register Op Package: (?P<lib>.*?) and interface provider: (?P<provider>\S+)",
        "{lib} was not registered with {provider}",
        *_NOT_REGISTERED[:4],
        *causes.of("qnn", 4006)[:1],
    ),
    line(
        "litert-no-package",
        r"No custom package registered for custom op",
        "LiteRT knows of no op package, and leaves the custom op to the CPU",
        Cause(
            "--qualcomm_custom_op_package is missing, or its name is empty",
            "`udogen register … --client litert`",
            "documented: LiteRT, CUSTOM_OP_INSTRUCTIONS",
        ),
    ),
    line(
        "litert-ignored",
        r"Custom op package is only supported on HtpBackend",
        "LiteRT ignores op packages on every backend but HTP",
        Cause("the backend is not htp", "--qualcomm_backend=htp", "documented: LiteRT, backend_factory.cc"),
    ),
    line(
        "genie-key",
        r"Unknown (?P<part>\S+) config key: (?P<key>\S+)",
        "Genie's configuration has no key {key}; it has none for op packages either",
        Cause(
            "the key does not exist in this version",
            "leave it out; see `udogen register … --client genie`",
            "documented: Genie, Dialog JSON",
        ),
    ),
    line(
        "core-headers",
        r"no member named \W?(?P<member>get_interface_scale\w*)",
        "the source of an op for HTP calls {member}, which the C++ headers of this SDK release do not have",
        Cause(
            "the C++ interface of HTP (HTP/core) changes with every release, and the source is of another",
            "build with the SDK that the source was written for, or generate with --htp-api qhpi, an interface in C "
            "that stays the same",
            "documented: QNN, HTP op packages",
        ),
    ),
    *lines_of_ort.ALL,
    *lines_of_executorch.ALL,
    line(  # after those of clients that say which package it was
        "registration",
        r"Failed to register [Oo]p ?[Pp]ackage",
        "an op package was not registered; some programs go on without its ops",
        *_NOT_REGISTERED,
        *causes.of("qnn", 4006)[:1],
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
    line(
        "prepare-not-loaded",
        r"Function not called, PrepareLib isn't loaded",
        "harmless where graphs come from context binaries: nothing is prepared on the device",
    ),
    line("cost-based", r"Cost Based unsupported on soc", "harmless: the chip has no cost model, the usual one is used"),
    line("cpu-log", r"Logger hasn't been initialized", "harmless: logs began before the logger"),
    line(
        "context-protocol",
        r"QnnContextCustomProtocol expected magic number",
        "harmless: ExecuTorch tries one format after the other",
    ),
    line(
        "ort-success",
        r"Successfully register the op package",
        "no error: ONNX Runtime logs its success as one",
    ),
    line("no-registered-op", r"No registered op found", "harmless for packages over QHPI: that is the older registry"),
)
