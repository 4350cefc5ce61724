"""The C++ that calls what Halide has compiled: `execute`, and `prepare` if an op looks up its numbers in a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from udogen.kernels.request import KernelVariant, Launch, Report, Request, TensorPort
from udogen.mako_templates import render_template
from udogen.opdef.names import cpp_string

TEMPLATE = "kernels/kernel.inc.mako"
REFUSED = "kernels/refused.inc.mako"
_MOST_LINES = 3
_QUANTIZED = ("u8", "i8", "u16", "i16")
_BLOCKS = {"crouton8": {"u8": "uint8"}, "crouton16": {"u16": "uint16", "f16": "half"}}  # stored types by their layout
_KINDS = {"f32": "float", "i32": "std::int32_t"}
_STATE = {"state": ", const State& state", "prepare": "prepare, ", "given_state": ", state"}


class _Function(NamedTuple):
    name: str
    parameters: str


class _Lines(NamedTuple):
    name: str  # of a tensor
    numbers: str


class _View(NamedTuple):
    name: str
    layout: str
    rows: bool


class _Launches(NamedTuple):
    name: str  # of a function
    kernels: Sequence[Launch]


class _Cut(NamedTuple):
    """The part that one thread calculates: everything, some rows of the outputs, or some elements of all tensors."""

    in_one: bool = False
    rows: Sequence[str] = ()
    elements: Sequence[str] = ()
    same: str = ""  # whether all tensors have the same number of elements
    first: str = ""


class _Tiles(NamedTuple):
    """How HTP may cut a large output: a bit for each input that is cut alike, and the axis of rows, left whole."""

    cut: str
    axis: str


class _Blocks(NamedTuple):
    """A kernel for tensors in the blocks of HTP's convolutions."""

    requirements: Sequence[str]


class _Table(NamedTuple):
    """The table in which an op of 8 bits looks up its numbers."""

    test: str
    input: str
    output: str
    fill: str
    look_up: str


class _Choice(NamedTuple):
    """The call of the function for some types."""

    test: str
    strided: str
    call: str


def include(request: Request, report: Report) -> str:
    """The text that the kernel's C++ file includes; it is the same for every machine of a backend."""
    if report.not_on_gpu:
        return render_template(REFUSED, {"op": request.op, "refusal": cpp_string(report.not_on_gpu)})
    by_types = _by_types(report)
    gpu, has_state = request.machine.gpu, bool(report.table or report.allocations)
    data = {
        "op": request.op,
        "alias_on_hexagon": report.auto,
        **_functions(request, report, [variant for row in by_types.values() for variant in row.values()]),
        "lines": [_Lines(name, _numbers(numbers)) for name, numbers in report.lines.items()],
        "table": _table(request, report, by_types) if report.table else None,
        "gpu": gpu,
        "not_gpu": not gpu,
        "launches": [_Launches(name, list(rows)) for name, rows in groupby(report.launches, attrgetter("function"))],
        "memory": bool(report.allocations),
        **{name: text * has_state for name, text in _STATE.items()},
        "views": [_view(port, *view) for port, view in zip(request.tensors, report.views, strict=True)],
        "inputs": [] if gpu else [port.name for port in request.tensors if not port.is_output],
        "cut": _Cut() if gpu else _cut(request, report),
        "tiles": _tiles(request, report),
        "blocks": _blocks(request, report),
        "choices": [_choice(request, report, types, by_last) for types, by_last in by_types.items()],
    }
    return render_template(TEMPLATE, data)


def _functions(request: Request, report: Report, variants: Sequence[KernelVariant]) -> dict[str, Sequence[_Function]]:
    """The functions that are declared, and those for small tensors, by their names in the template."""
    by_name = {variant.name(request.prefix): variant for variant in variants}
    functions = {name: _Function(name, ", ".join(_parameters(request, variant))) for name, variant in by_name.items()}
    declared = list(functions.values())
    if report.table:
        declared.append(_Function(f"{request.prefix}_table", ", ".join(["void*", *["udo::halide::Buffer*"] * 3])))
    endings = ("", "_aligned") if _may_be_aligned(request, report) else ("",)
    return {
        "functions": [_Function(name + ending, parameters) for name, parameters in declared for ending in endings],
        "small": [functions[name] for name, variant in by_name.items() if variant.last]
        if report.auto or report.tiles
        else (),
    }


def _by_types(report: Report) -> dict[tuple[str, ...], dict[bool, KernelVariant]]:
    """Types of the tensors -> the functions for the last axis, and for others."""
    by_types: dict[tuple[str, ...], dict[bool, KernelVariant]] = {}
    for variant in report.variants:
        if not variant.aligned and not variant.small:
            by_types.setdefault(variant.types, {})[variant.last] = variant
    return by_types


def _numbers(lines: Sequence[int]) -> str:
    """The lines of the kernel that use a tensor, for the end of messages."""
    return ", ".join(map(str, lines[:_MOST_LINES])) + (", …" if len(lines) > _MOST_LINES else "")


def _may_be_aligned(request: Request, report: Report) -> bool:
    return all(kind == "flat" for kind, _ in report.views) and not request.machine.gpu


def _view(port: TensorPort, kind: str, value: int | str | None) -> _View:
    layout = ""
    if kind == "rows":
        layout = f", udo::halide::Rows{{static_cast<int>({f'args.{value}' if isinstance(value, str) else value})}}"
    if kind == "whole":
        layout = f", udo::halide::Whole{{{value}}}"
    return _View(port.name, layout, kind == "rows")


def _cut(request: Request, report: Report) -> _Cut:
    outputs = [port.name for port in request.tensors if port.is_output]
    if report.in_one:
        return _Cut(in_one=True)
    if not report.elementwise:
        return _Cut(rows=outputs)
    tests = {port.name: f"{port.name}_.size() == {outputs[0]}_.size()" for port in request.tensors}
    tests |= {port.name: f"(!args.{port.name} || {tests[port.name]})" for port in request.tensors if port.optional}
    same = " && ".join(test for name, test in tests.items() if name != outputs[0]) or "true"
    return _Cut(elements=list(tests), same=same, first=outputs[0])


def _tiles(request: Request, report: Report) -> _Tiles | None:
    """The tiles of an op with one output whose elements or rows are computed alone, from those in the same place."""
    views = dict(zip((port.name for port in request.tensors), report.views, strict=True))
    outputs = [port.name for port in request.tensors if port.is_output]
    alike = [name for name, view in views.items() if view[0] == views[outputs[0]][0]]
    kind, axis = views[outputs[0]]
    alone = report.elementwise or (kind == "rows" and all(views[name][1] == axis for name in alike))
    if not alone or report.in_one or len(outputs) > 1 or request.refused:
        return None
    cut = sum(1 << request.values.index(name) for name in alike if name not in outputs)
    if isinstance(axis, str):
        usual = int(request.defaults.get(axis, -1))
        return _Tiles(f"{cut}u", f"udo::axisOf(op, {request.values.index(axis)}, {usual})")
    return _Tiles(f"{cut}u", "udo::noAxis" if axis is None else str(axis))


def _blocks(request: Request, report: Report) -> list[_Blocks]:
    """The kernels for tensors in blocks, whose elements are calculated alone, as many to each block."""
    if not report.elementwise or _tiles(request, report) is None:
        return []
    kernels = []
    for layout, elements in _BLOCKS.items():
        by_port = {port.name: [elements[kind] for kind in port.types if kind in elements] for port in request.tensors}
        place = f"udo::Layout::{layout}, udo::Storage::indirect, udo::Memory::tcm"
        requirements = [f"wants(Tensor::{name}, {place})" for name in by_port]
        for name, kinds in by_port.items():
            requirements += [f"takes(Tensor::{name}, udo::Element::{kind})" for kind in kinds]
        if all(by_port.values()):
            kernels.append(_Blocks(requirements))
    return kernels


def _table(request: Request, report: Report, by_types: dict[tuple[str, ...], dict[bool, KernelVariant]]) -> _Table:
    [variant] = by_types["u8", "u8"].values()
    names = {port.is_output: port.name for port in request.tensors}
    tests = [f"udo::halide::isStoredAs(args.{port.name}, udo::halide::u8)" for port in request.tensors]
    arguments = f"{request.prefix}_table, &{names[False]}_.raw, &table_.raw, &{names[True]}_.raw"
    fill = _call(request, report, variant)
    return _Table(" && ".join(tests), names[False], names[True], fill, f"call.run(UDO_HALIDE({arguments}))")


def _choice(request: Request, report: Report, types: tuple[str, ...], by_last: dict[bool, KernelVariant]) -> _Choice:
    tests = [_test(port, stored) for port, stored in zip(request.tensors, types, strict=True)]
    strided = _call(request, report, by_last[False]) if False in by_last else ""
    return _Choice(" && ".join(tests), strided, _call(request, report, by_last[True]))


def _test(port: TensorPort, stored: str) -> str:
    if not stored:
        return f"!args.{port.name}"
    test = f"{port.name}_.is(udo::halide::{stored})"
    return f"args.{port.name} && {test}" if port.optional else test


def _present(request: Request, variant: KernelVariant) -> list[tuple[TensorPort, str]]:
    """The tensors that a function takes, and how they are stored."""
    return [(port, stored) for port, stored in zip(request.tensors, variant.types, strict=True) if stored]


def _parameters(request: Request, variant: KernelVariant) -> Iterable[str]:
    yield "void*"
    present = _present(request, variant)
    yield from ("udo::halide::Buffer*" for port, _ in present if not port.is_output)
    yield from (_KINDS[kind] for kind in request.scalars.values())
    for port, stored in present:
        yield from ("float", "std::int32_t") if port.real and stored in _QUANTIZED else ()
    yield from ("udo::halide::Buffer*" for port, _ in present if port.is_output)


def _call(request: Request, report: Report, variant: KernelVariant) -> str:
    """The call of a function."""
    present = _present(request, variant)
    given = [f"&{port.name}_.raw" for port, _ in present if not port.is_output]
    given += [f"static_cast<{_KINDS[kind]}>(args.{name})" for name, kind in request.scalars.items()]
    for port, stored in present:
        if port.real and stored in _QUANTIZED:
            quantization = f"args.{port.name}.quantization()"
            given += [f"{quantization}.scale", f"{quantization}.offset"]
    given += [f"&{port.name}_.raw" for port, _ in present if port.is_output]
    name, arguments = variant.name(request.prefix), ", ".join(given)
    if request.machine.gpu:
        return f"call.of({name}_launches).run({name}(static_cast<udo::halide::Call*>(&call), {arguments}))"
    call = f"UDO_HALIDE({name}, {arguments})" if _may_be_aligned(request, report) else f"{name}(&call, {arguments})"
    small = f"{name}_small(call.again(), {arguments})"
    if report.allocations:
        first, second = (report.allocations.get(function, 0) for function in (name, f"{name}_small"))
        call, small = f"(call.begins({first}) ? {call} : -1)", f"(call.begins({second}) ? {small} : -1)"
    if (report.auto and variant.last) or report.tiles:  # a function returns an error before it writes anything
        call = f"{call} == 0 ? 0 : {small}"
    return f"call.run({call})"
