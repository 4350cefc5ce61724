"""udogen's C headers as a cffi library.

Parsing them is slow, so cffi's out-of-line ABI module is kept in the cache folder; its name depends on the headers and
on cffi's version.
"""

from __future__ import annotations

import importlib.util
import io
import os
import re
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import _cffi_backend

from udogen import resources
from udogen.errors import UsageError


class Headers(NamedTuple):
    """Headers that can be read together: no two of them give one name two meanings."""

    roots: tuple[str, ...]
    before: str = ""
    after: str = ""


# va_list is passed by reference on x86_64 and aarch64, so it is declared as a pointer.  The by-value type is for
# calls that take a Qnn_OpConfig_t: libffi cannot pass a struct with a union in it, but one of the same size
# travels in the same place.
QNN = Headers(
    roots=(
        "QnnInterface.h",
        "CPU/QnnCpuOpPackage.h",
        "System/QnnSystemInterface.h",
        "GPU/QnnGpuGraph.h",  # not GPU/QnnGpuOpPackage.h: its node differs from that of CPU
        "HTP/QnnHtpContext.h",
        "HTP/QnnHtpDevice.h",
        "HTP/QnnHtpGraph.h",
        "HTP/QnnHtpMem.h",
        "HTP/QnnHtpSystemContext.h",
        "HTP/core/qhpi.h",
    ),
    before="typedef void *va_list;\n",
    after="""
typedef struct { uint64_t words[10]; } udogen_OpConfigByValue;
typedef Qnn_ErrorHandle_t (*udogen_TakesOpConfig)(void *handle, udogen_OpConfigByValue op);
typedef Qnn_ErrorHandle_t (*udogen_TakesOpConfigAlone)(udogen_OpConfigByValue op);
int vsnprintf(char *into, size_t size, const char *format, void *args);
""",
)

# DSP completes QNN's opaque structures as CPU does; UDO has a function of one name on both of its sides.
# Before API 1.6 the infos of operations ended before those of their tensors.
UDO = Headers(
    roots=("SnpeUdo/UdoReg.h", "SnpeUdo/UdoImpl.h"),
    after="""
typedef struct {
  SnpeUdo_String_t operationType;
  SnpeUdo_Bitmask_t supportedByCores;
  uint32_t numOfStaticParams;
  SnpeUdo_Param_t *staticParams;
  uint32_t numOfInputs;
  SnpeUdo_String_t *inputNames;
  uint32_t numOfOutputs;
  SnpeUdo_String_t *outputNames;
  uint32_t numOfCoreInfo;
  SnpeUdo_OpCoreInfo_t *opPerCoreInfo;
} udogen_OldOperationInfo;
""",
)
DSP = Headers(roots=("DSP/QnnDspOpPackage.h",), before=QNN.before)


def text_bytes(text: str, what: str) -> bytes:
    """A text as C gets it; raises unless it is one that C can have."""
    if "\0" not in text:
        with suppress(UnicodeEncodeError):  # a surrogate
            return text.encode()
    raise UsageError(f"{what} is {text!r}, which C cannot represent as a string", hint="leave out NUL and surrogates")


@cache
def ffi(headers: Headers = QNN) -> Any:
    """The cffi object that knows every type of these headers."""
    name = f"_udogen_qnn_abi_{_key(headers)}"
    path: Path | None = None
    try:
        path = resources.cache_dir("abi") / f"{name}.py"
        return _import(name, path)
    except Exception:  # missing or broken: generated again
        pass
    source = declarations(headers)
    try:
        if path is None:
            raise OSError("the cache may be written by others")
        _write(name, path, source)
        return _import(name, path)
    except OSError:  # no folder to write to: slower
        return _in_memory(name, source)


def _key(headers: Headers) -> str:
    """A key of everything that the declarations depend on; `hashlib` takes longer to import than all this."""
    files = [Path(__file__), *sorted(resources.qnn_headers().rglob("*.h"))]
    texts = (*headers.roots, headers.before, headers.after, _cffi_backend.__version__)
    contents = [*(path.read_bytes() for path in files), *(text.encode() for text in texts)]
    decisive = b"".join(b"%d:%b" % (len(content), content) for content in contents)
    return f"{zlib.crc32(decisive):08x}{zlib.adler32(decisive):08x}"


def declarations(headers: Headers = QNN) -> str:
    """The headers in the order of their includes, without preprocessor, as `cdef` takes them."""
    seen: set[str] = set()
    parts = [_declarations_of(root, seen) for root in headers.roots]
    return headers.before + "".join(parts) + headers.after


def _declarations_of(name: str, seen: set[str]) -> str:
    if name in seen:
        return ""
    seen.add(name)
    text = (resources.qnn_headers() / name).read_text(encoding="utf-8")
    lines: list[str] = []
    hidden = 0  # depth of #if blocks below a hidden one
    for line in text.splitlines():
        directive = re.match(r"\s*#\s*(\w+)\s*(.*)", line)
        if hidden:
            if directive and directive[1].startswith("if"):
                hidden += 1
            elif directive and directive[1] == "endif":
                hidden -= 1
        elif directive is None:
            lines.append(line)
        elif directive[1] == "ifdef" and directive[2] == "__cplusplus":
            hidden = 1
        elif directive[1] == "include" and directive[2].startswith('"'):
            lines.append(_declarations_of(directive[2].strip('"'), seen))
        elif directive[1] == "define" and re.fullmatch(r"\w+ (0x)?[0-9A-Fa-f]+", directive[2]):
            lines.append(line)
    return "\n".join(lines) + "\n"


def _import(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ffi


def _in_memory(name: str, source: str) -> Any:
    code = io.StringIO()
    _builder(name, source).emit_python_code(code)
    found: dict[str, Any] = {}
    exec(compile(code.getvalue(), name, "exec"), found)  # what cffi itself wrote
    return found["ffi"]


def _builder(name: str, source: str) -> Any:
    import cffi  # the parser takes a tenth of a second to import

    builder = cffi.FFI()
    builder.set_source(name, None, compiler_verbose=0)
    builder.cdef(source)
    return builder


def _write(name: str, path: Path, source: str) -> None:
    import tempfile

    builder = _builder(name, source)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        builder.emit_python_code(str(made))
        os.replace(made, path)
