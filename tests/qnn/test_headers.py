"""udogen's headers compile alone, in C and in C++, and the compiler agrees with cffi about them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from udogen import resources
from udogen.qnn import abi

HEADERS = sorted(str(path.relative_to(resources.qnn_headers())) for path in resources.qnn_headers().rglob("*.h"))
FOR_PACKAGES = ("QnnCommon.h", "QnnTypes.h", "QnnLog.h", "QnnOpPackage.h")
BACKENDS = {
    "CPU/QnnCpuOpPackage.h": (),
    "GPU/QnnGpuOpPackage.h": ("QnnClientTypes.h", "QnnGraph.h", "GPU/QnnGpuGraph.h"),
}
# From the public header of SDK 2.43 (GPU API 3.12); a package and a device must agree about each of them.
GPU_LAYOUT = {
    "sizeof(QnnGpu_DeviceProperties_t)": 240,
    "offsetof(QnnGpu_DeviceProperties_t, maxWorkGroupSize)": 160,
    "offsetof(QnnGpu_DeviceProperties_t, baseAddrAlignment)": 200,
    "offsetof(QnnGpu_DeviceProperties_t, vector64Support)": 234,
    "sizeof(QnnGpu_MemoryObject_t)": 56,
    "offsetof(QnnGpu_MemoryObject_t, dimensions)": 8,
    "offsetof(QnnGpu_MemoryObject_t, layout)": 28,
    "offsetof(QnnGpu_MemoryObject_t, name)": 48,
    "sizeof(QnnGpuOpPackage_Node_t)": 32,
    "offsetof(QnnGpuOpPackage_Node_t, storageTypes)": 16,
    "sizeof(QnnGpu_OutputClaim_t)": 16,
    "sizeof(QnnGpu_KernelArg_t)": 24,
    "sizeof(QnnGpu_Kernel_t)": 136,
    "offsetof(QnnGpu_Kernel_t, globalWorkSizes)": 40,
    "offsetof(QnnGpu_Kernel_t, localWorkSizes)": 72,
    "offsetof(QnnGpu_Kernel_t, args)": 96,
    "offsetof(QnnGpu_Kernel_t, isDynamic)": 112,
    "sizeof(QnnGpu_Operation_t)": 24,
    "sizeof(QnnGpuGraph_CustomConfig_t)": 8,
    "QNN_GPU_KERNEL_ARG_TYPE_OP_TENSOR_PARAM": 9,
    "QNN_GPU_KERNEL_ARG_CL_TYPE_DOUBLE": 9,
    "QNN_GPU_MEM_OBJ_TYPE_IMAGE1D_BUFFER": 7,
}
COMPILERS = {
    "c": ("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror"),
    "c++": ("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror"),
}
ENDINGS = {"c": "c", "c++": "cpp"}
needs_gcc = pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("g++")), reason="gcc is not installed")


def compile_and_run(folder: Path, source: str, *, include: Path, language: str = "c++") -> str:
    """Return the output of a program."""
    code, program = folder / f"program.{ENDINGS[language]}", folder / "program"
    code.write_text(source)
    subprocess.run([*COMPILERS[language], f"-I{include}", code, "-o", program], check=True)
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout


@needs_gcc
@pytest.mark.parametrize("language", ["c", "c++"])
def test_each_header_compiles_alone(tmp_path: Path, language: str) -> None:
    for number, header in enumerate(HEADERS):
        (tmp_path / f"{number}.{ENDINGS[language]}").write_text(f'#include "{header}"\n')
    argv = [*COMPILERS[language], f"-I{resources.qnn_headers()}", "-fsyntax-only", *sorted(tmp_path.iterdir())]
    subprocess.run(argv, check=True)


@needs_gcc
@pytest.mark.parametrize("language", ["c", "c++"])
def test_each_initializer_fits_its_type(tmp_path: Path, language: str) -> None:
    """In the style of programs for the SDK: `Qnn_Tensor_t tensor = QNN_TENSOR_INIT;`."""
    texts = {name: (resources.qnn_headers() / name).read_text("utf-8") for name in HEADERS}
    found = {
        (name, type_name, macro)
        for name, text in texts.items()
        for type_name, macro in re.findall(r"} (\w+_t);\n\n?#define (QNN_\w+_INIT) ", text)
    }
    assert len(found) > 15
    lines = sorted(f'#include "{name}"' for name, _, _ in found)
    lines += [f"{type_name} {macro.lower()} = {macro};" for _, type_name, macro in sorted(found)]
    source = "\n".join([*dict.fromkeys(lines), "int main(void) { return 0; }"])
    compile_and_run(tmp_path, source, include=resources.qnn_headers(), language=language)


@needs_gcc
@pytest.mark.parametrize("own", BACKENDS)
def test_the_headers_for_packages_need_no_other(tmp_path: Path, own: str) -> None:
    include = tmp_path / "include"
    for header in (*FOR_PACKAGES, own, *BACKENDS[own]):
        (include / header).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(resources.qnn_headers() / header, include / header)
    source = f'#include "{own}"\nint main() {{ return 0; }}\n'
    compile_and_run(tmp_path, source, include=include)


@needs_gcc
def test_the_gpu_header_is_laid_out_as_the_public_one(tmp_path: Path) -> None:
    assert measured(tmp_path, ["GPU/QnnGpuOpPackage.h"], GPU_LAYOUT) == GPU_LAYOUT


# Some numbers of each group of headers, and how many facts there are at least.
AGREED = {
    "qnn": (abi.QNN, 700, {
        "sizeof(Qnn_Tensor_t)": 144, "sizeof(Qnn_OpConfig_t)": 80, "sizeof(Qnn_Param_t)": 160,
        "offsetof(QnnInterface_t, v2)": 40,
    }),
    "udo": (abi.UDO, 150, {
        "sizeof(SnpeUdo_Param_t)": 64, "offsetof(SnpeUdo_OperationInfo_t, inputInfos)": 72,
        "SNPE_UDO_DATATYPE_UINT_8": 0x100, "UDO_DATATYPE_UINT_8": 0x100, "SNPE_UDO_UNKNOWN_ERROR": 0xFFFFFFFF,
    }),
    "dsp": (abi.DSP, 1, {
        "sizeof(QnnDspOpPackage_OperationInfo_t)": 80,
        "offsetof(QnnDspOpPackage_OperationInfo_t, createOpFactory)": 24,
        "offsetof(SnpeUdo_DspGlobalInfrastructure_t, hexNNv2Infra)": 16,
    }),
}  # fmt: skip


@needs_gcc
@pytest.mark.parametrize("name", AGREED)
def test_compiler_and_cffi_agree_on_every_layout_and_value(name: str, tmp_path: Path) -> None:
    headers, least, some = AGREED[name]
    expected = dict(facts(headers))
    assert measured(tmp_path, headers.roots, expected) == expected
    assert len(expected) > least and expected.items() >= some.items()


@needs_gcc
@pytest.mark.parametrize("header", ["SnpeUdo/UdoReg.h", "SnpeUdo/UdoImpl.h", "DSP/QnnDspOpPackage.h"])
def test_the_headers_of_udo_hold_on_hexagon_where_pointers_have_four_bytes(tmp_path: Path, header: str) -> None:
    code = tmp_path / "program.cpp"
    code.write_text(f'#include "{header}"\nstatic_assert(sizeof(void *) == 4, "");\n')
    zig = [sys.executable, "-m", "ziglang", "c++", "-target", "hexagon-linux-musl", "-mcpu=hexagonv66", "-std=c++17"]
    argv = [*zig, "-Wall", "-Wextra", "-Werror", f"-I{resources.qnn_headers()}", "-c", str(code), "-o", f"{code}.o"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_name_of_udo_exists_with_and_without_snpe() -> None:
    ffi = abi.ffi(abi.UDO)
    assert [ffi.integer_const(f"API_VERSION_{part}") for part in ("MAJOR", "MINOR")] == [1, 6]
    values = {name: value for name, value in facts(abi.UDO) if name.startswith(("SNPE_UDO_", "UDO_"))}
    assert len(values) > 90
    for name, value in values.items():
        assert values[name.removeprefix("SNPE_") if name.startswith("SNPE_") else f"SNPE_{name}"] == value
    types = set(ffi.list_types()[0])
    for name in types:
        assert not name.startswith("Udo_") or name == "Udo_PkgVersion_t" or f"Snpe{name}" in types


def measured(folder: Path, headers: Iterable[str], expressions: Iterable[str]) -> dict[str, int]:
    """Return the values that a C++ compiler has for some expressions."""
    lines = ["#include <cstddef>", "#include <cstdio>", *(f'#include "{header}"' for header in headers), "int main() {"]
    lines += [f'std::printf("%s\\t%llu\\n", "{what}", (unsigned long long)({what}));' for what in expressions]
    output = compile_and_run(folder, "\n".join([*lines, "}"]), include=resources.qnn_headers())
    return {what: int(number) for what, number in (line.split("\t") for line in output.splitlines())}


def facts(headers: abi.Headers) -> Iterator[tuple[str, int]]:
    """Yield every size, offset and enumerator of cffi, as a C expression."""
    ffi = abi.ffi(headers)
    for name in ffi.list_types()[0]:
        if "udogen" in name or name == "va_list":
            continue
        try:
            size = ffi.sizeof(name)
        except ffi.error:  # opaque
            continue
        kind = ffi.typeof(name)
        if kind.kind == "struct":
            yield f"sizeof({name})", size
            for field, offset in offsets(ffi, kind):
                yield f"offsetof({name}, {field})", offset
        elif kind.kind == "enum":
            yield from ((enumerator, value) for enumerator, value in kind.relements.items())


def offsets(ffi: Any, kind: Any, base: int = 0) -> Iterator[tuple[str, int]]:
    """Yield the named members of a struct, including those of unnamed unions."""
    ffi.sizeof(kind)  # cffi completes the members of a struct when its size is first requested
    for name, field in kind.fields:
        if field.bitsize >= 0:  # C has no offset of a bit field
            continue
        if name:
            yield name, base + field.offset
        else:
            yield from offsets(ffi, field.type, base + field.offset)


def test_only_preprocessor_lines_that_python_can_strip() -> None:
    allowed = re.compile(
        r"#(ifndef|define) UDOGEN_QNN_\w+_H|#endif|#ifdef __cplusplus|#include [<\"][\w/]+\.h[>\"]"
        r"|#define (QNN|QHPI|API_VERSION|SNPE_UDO)_\w+ (0x)?[0-9A-Fa-f]+u?"
        r"|#define QNN_\w+_INIT \{.*\}|#define QNN_INTERFACE_VER_(NAME|TYPE) \w+"
    )
    for header in HEADERS:
        for line in (resources.qnn_headers() / header).read_text().splitlines():
            assert not line.startswith("#") or allowed.fullmatch(line), f"{header}: {line}"
