"""Floats on Hexagon, which zig compiles: the C++ that Halide makes of half floats, and its LLVM code of others."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import halide as hl

from udogen import process, resources
from udogen.kernels.lines import IN_ANY_ORDER
from udogen.kernels.request import HALVES, IEEE, WITHOUT_PASSES

TARGET = "hexagon-32-noos"
_VECTORS = "#if halide_cpp_use_native_vector("  # the first of the lines that name vectors; the function is after them
# Halves are 16 bits, and casts of them are functions of the header.
_EDITS = (
    (r"\bNativeVectorOps<", "Ops<"),
    (r"\b(\w+)_ops::convert_from<float16_t(\d+)>", r"fromHalves<\1, \2>"),
    (r"\bfloat16_t(\d+)_ops::convert_from<(\w+)>", r"toHalves<\2, \1>"),
    (r"\bfloat16_t(\d+)", r"uint16x\1_t"),
    (r"<float16_t,", "<uint16_t,"),
    (r"\b(bool \w+ = )~", r"\1!"),  # Halide writes both the logical and the other complement as `~`
    (r"(?m)^ *\w+ \w+\[\d+\];$", r"alignas(128) \g<0>"),
    (r"(= \(\w+ *\*\))(halide_malloc\(.*\));", r"\1__builtin_assume_aligned(\2, 128);"),
    (r"\(float16_t\)\((_\d+)\)", r"(float16_t)((float)(\1))"),  # of an integer, too: half floats are made of floats
)
_ARITHMETIC = re.compile(r"\bfloat16_t\d+(?:_ops::(?!convert_from)| \w+ = (?!reinterpret<|float16_t))")
_TRUTHS = re.compile(r"<u?int8x\d+_t\b|\bu?int8x\d+_t_ops::(?!logical_)|\bint8x")
_CONDITION = re.compile(r"\buint8x\d+_t (_\d+) = uint8x\d+_t_ops::broadcast\(\w+\);")  # of all lanes
# Headers that take half of the time, for one structure that the function does not use.
_UNUSED = ((r"#include <(?:array|string_view)>\n", ""), (r"\bstd::string_view\b", "const char *"))
_NUMBER = re.compile(r"\b(\w+) (_\d+) = (.*);")
_SUM, _PRODUCT = re.compile(r"\b(float\d+) (_\d+) = (_\d+) \+ (_\d+);"), re.compile(r"(_\d+) \* (_\d+)")
_WIDENED = re.compile(r"fromHalves<\w+, \d+>\((\w+)\)")
_BROADCAST, _OF_NUMBER = re.compile(r"\w+_ops::broadcast\((\w+)\)"), re.compile(r"\(float\)\((\w+)\)")
_IN_ANY_ORDER = re.compile(rf"\w+_ops::load\(_{IN_ANY_ORDER}")
_STORED = re.compile(rf"\b(float\d+)_ops::store\((_\d+), (_{IN_ANY_ORDER}\w*, \w+)\);")
_UNDEFINED = re.compile(r"^float (\w+)\(float ", re.MULTILINE)
_ALIGNED = r"= (_halide_buffer_get_host\(\w+\));", r"= __builtin_assume_aligned(\1, 128);"
# Folder -> Hexagon's version and floats.
_FLOATS = {"": ("v68", "hvx_qfloat"), IEEE: ("v79", "hvx_ieee_fp")}
# What takes most of the time, and gains no packets here.
_WITHOUT_LOOPS = ("-enable-pipeliner=0", "-unroll-runtime=0")


class NotCompiledError(Exception):
    """Zig is missing, or does not compile the C++ of a function."""


def compile_halves(module: Any, file: Path, *, aligned: bool, texts: bool) -> None:
    """Write object files, and with `texts` assembly, for both kinds of Hexagon's floats."""
    name, source = file.stem, file.with_suffix(".cpp")
    module.compile({hl.OutputFileType.c_source: str(source)})
    code = source.read_text("utf-8").split(f"\nHALIDE_FUNCTION_ATTRS\nint {name}_argv(")[0] + "\n}\n"
    usual, vectors, function = code.partition(_VECTORS)
    if _ARITHMETIC.search(function):
        raise NotCompiledError("it calculates in half floats, without converting them to floats")
    body = function.partition(f"\nint {name}(")[2]
    if _TRUTHS.search(_CONDITION.sub(lambda match: match[0] if _calculates_with(match[1], body) else "", body)):
        raise NotCompiledError("it calculates with bytes, or with conditions as numbers")
    if undefined := _UNDEFINED.search(code):
        raise NotCompiledError(f"it calls {undefined[1]}()")
    function = vectors + function
    for pattern, text in (*_EDITS, *([_ALIGNED] if aligned else [])):
        function = re.sub(pattern, text, function)
    function = _with_products(function)
    for pattern, text in _UNUSED:
        usual = re.sub(pattern, text, usual)
    values, header = (resources.templates() / path for path in HALVES)
    source.write_text(f'#include "{values.name}"\n{usual}#include "{header.name}"\n{function}', "utf-8")
    options = [
        *(part for option in _WITHOUT_LOOPS for part in ("-mllvm", option)),
        *("-O2", "-ffp-contract=off", "-fno-exceptions", "-fno-rtti", "-g0", "-w"),
        *(f"-I{path.parent}" for path in (values, header)),
    ]
    for folder, floats in _FLOATS.items():
        _compile(source, file.parent / folder / name, floats, options, texts=texts)


def _calculates_with(name: str, body: str) -> bool:
    """Whether a variable is used in another way than to select."""
    return len(re.findall(rf"\b{name}\b", body)) != 1 + len(re.findall(rf"_ops::select\({name},", body))


def _with_products(function: str) -> str:
    """C++ in which one instruction multiplies half floats and adds their products to floats."""
    numbers = _NUMBER.findall(function)
    types, values = {name: kind for kind, name, _ in numbers}, {name: text for _, name, text in numbers}

    def value(name: str) -> str:
        text = values.get(name, "")
        return value(text) if text in values else text

    def factor(name: str) -> tuple[int, str]:
        """What a factor is made of: 2 a vector of half floats, 1 a half float, 0 other floats."""
        if vector := _WIDENED.fullmatch(value(name)):
            return 2, vector[1]
        number = _BROADCAST.fullmatch(value(name))
        half = _OF_NUMBER.fullmatch(value(number[1])) if number else None
        return (1, half[1]) if half and types.get(half[1]) == "float16_t" else (0, name)

    def factors(product: re.Match[str]) -> list[tuple[int, str]]:
        return sorted(map(factor, product.groups()), reverse=True)

    def added(match: re.Match[str]) -> str:
        kind, name, *terms = match.groups()
        for sums, term in (terms, reversed(terms)):
            if product := _PRODUCT.fullmatch(value(term)):
                (first, a), (second, b) = factors(product)
                if first == 2:
                    order = ", false" * bool(_IN_ANY_ORDER.search(value(sums)))
                    floats = f"{sums} + fromHalves<{kind}, {kind.removeprefix('float')}, false>({a}) * {b}"
                    return f"{kind} {name} = {f'addProducts<{kind}{order}>({sums}, {a}, {b})' if second else floats};"
        return match[0]

    def stored(match: re.Match[str]) -> str:
        kind, term, place = match.groups()
        product = _PRODUCT.fullmatch(value(term))
        (first, a), (second, b) = factors(product) if product else [(0, ""), (0, "")]
        return f"{kind}_ops::store(products<{kind}>({a}, {b}), {place});" if first == second == 2 else match[0]

    return _STORED.sub(stored, _SUM.sub(added, function))


def compile_floats(module: Any, file: Path, *, texts: bool) -> None:
    """Write the object file of a function in floats, and with `texts` its assembly.

    Zig's LLVM keeps sums and products as qfloat for the next operation; that of Halide converts each of them.
    """
    bitcode = file.with_suffix(".bc")
    module.compile({hl.OutputFileType.bitcode: str(bitcode)})
    options = ["-O2", "-Xclang", "-disable-llvm-passes", "-ffunction-sections", "-w"]
    _compile(bitcode, file, _FLOATS[""], options, texts=texts)


def _compile(source: Path, file: Path, floats: tuple[str, str], options: list[str], *, texts: bool) -> None:
    """Compile a source for a version of Hexagon and its floats with zig."""
    file.parent.mkdir(exist_ok=True)
    version, feature = floats
    argv = [
        *(sys.executable, "-m", "ziglang", "c++", "-target", "hexagon-linux-musl", str(source), "-fPIC", *options),
        *(part for option in WITHOUT_PASSES.split() for part in ("-mllvm", option)),
        f"-mcpu=hexagon{version}+hvx{version}+hvx_length128b+{feature}",
    ]
    for option, suffix in (("-c", "o"), ("-S", "s"))[: 1 + texts]:
        done = process.run([*argv, option, "-o", f"{file}.{suffix}"])
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["zig ended"]
            raise NotCompiledError(next((line for line in lines if "error:" in line), lines[0]))
