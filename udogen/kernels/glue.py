"""The C++ that calls what Halide has compiled: `execute`, and `prepare` if an op looks up its numbers in a table."""

from __future__ import annotations

from collections.abc import Iterable

from udogen.kernels.request import KernelVariant, Report, Request, TensorPort
from udogen.opdef.names import cpp_string

_MOST_LINES = 3
_QUANTIZED = ("u8", "i8", "u16", "i16")

ByTypes = dict[tuple[str, ...], dict[bool, KernelVariant]]  # of tensors -> functions for the last axis, and for others


def include(request: Request, report: Report) -> str:
    """The text that the kernel's C++ file includes; it is the same for every machine of a backend."""
    lines = [f"// Made by udogen of {request.op}.py, with the functions beside this file."]
    if report.not_on_gpu:
        why = cpp_string(report.not_on_gpu)
        lines += [*_signature_on_gpu(request.op), f'  return udo::error("%s", {why});', "}"]
        return "\n".join([*lines, ""])
    by_types: ByTypes = {}
    for each in report.variants:
        if not each.aligned and not each.small:
            by_types.setdefault(each.types, {})[each.last] = each
    lines += [*_declarations(request, report, by_types), ""]
    lines += _lines(request, report)
    if report.table:
        lines += _table_state(request, report, by_types)
    if request.machine.gpu:
        lines += [*_launches(report), *_head_on_gpu(request)]
    else:
        lines += _head(", const State& state" if report.table else "")
    lines += ["  call.setLines(lines_of_tensors);", *_views(request, report)]
    lines += ['  if (!call.ok()) return udo::error("%s", call.message());']
    rows = [port.name for port, (kind, _) in zip(request.tensors, report.views, strict=True) if kind == "rows"]
    lines += [f"  if (call.last()) {name}_.dropInner();" for name in rows]
    if not request.machine.gpu:
        lines += _cut(request, report)
    lines += _calls(request, report, by_types)
    lines += [f'  return udo::error("no function of {request.op}.py is for these data types together");', "}"]
    if not request.machine.gpu:
        lines += ["", "#if defined(UDO_HTP)", "void hooks(Hooks& op) { op.sameTypes(); }", "#endif"]
    return "\n".join(lines) + "\n"


def _declarations(request: Request, report: Report, by_types: ByTypes) -> Iterable[str]:
    """The compiled functions, in C."""
    named = {each.name(request.prefix): each for row in by_types.values() for each in row.values()}
    parameters = {name: ", ".join(_parameters(request, each)) for name, each in named.items()}
    endings = ("", "_aligned") if _may_be_aligned(request, report) else ("",)
    yield 'extern "C" {'
    yield from (f"int {name}{ending}({parameters[name]});" for name in named for ending in endings)
    if report.table:
        buffers = ", ".join(["udo::halide::Buffer*"] * 3)
        yield from (f"int {request.prefix}_table{ending}(void*, {buffers});" for ending in endings)
    if report.auto:
        small = [name for name, each in named.items() if each.last]
        yield from ("#if defined(__hexagon__)", *(f"#define {name}_small {name}" for name in small), "#else")
        yield from (*(f"int {name}_small({parameters[name]});" for name in small), "#endif")
    yield "}"


def _lines(request: Request, report: Report) -> Iterable[str]:
    """Where the kernel uses each tensor, for the end of messages."""
    yield "const udo::halide::Lines lines_of_tensors[] = {"
    for name, numbers in report.lines.items():
        shown = ", ".join(map(str, numbers[:_MOST_LINES])) + (", …" if len(numbers) > _MOST_LINES else "")
        yield f'    {{"{name}", " ({request.op}.py:{shown})"}},'
    yield from ("    {nullptr, nullptr},", "};", "")


def _calls(request: Request, report: Report, by_types: ByTypes) -> Iterable[str]:
    """The call of the function for the tensors' types, or of the table's function."""
    if report.table:
        inputs = ", ".join(f"&{port.name}_.raw" for port in request.tensors if not port.is_output)
        output = next(f"&{port.name}_.raw" for port in request.tensors if port.is_output)
        yield from (
            "  if (state.is_table) {",
            "    udo::halide::View table_(state.table, 256);",
            f"    return call.run(UDO_HALIDE({request.prefix}_table, {inputs}, &table_.raw, {output}));",
            "  }",
        )
    for types, by_last in by_types.items():
        tests = [_test(port, stored) for port, stored in zip(request.tensors, types, strict=True)]
        yield f"  if ({' && '.join(tests)}) {{"
        if False in by_last:
            yield f"    if (!call.last()) return {_call(request, report, by_last[False])};"
        yield from (f"    return {_call(request, report, by_last[True])};", "  }")


def _head(state: str) -> Iterable[str]:
    """The head of `execute`: HTP calls an op in several threads, each with its slice."""
    yield from (
        "#if defined(UDO_HTP)",
        f"udo::Status execute(const Args& args{state}, const udo::Slice& slice) {{",
        "  const udo::halide::Part part{slice.number(), slice.count()};",
        "#else",
        f"udo::Status execute(const Args& args{state}) {{",
        "  const udo::halide::Part part{0, 1};",
        "#endif",
        "  udo::halide::Call call;",
    )


def _signature_on_gpu(op: str) -> Iterable[str]:
    yield f"udo::Status {op}Operation([[maybe_unused]] const Args& args, [[maybe_unused]] udo::Operation& operation) {{"


def _head_on_gpu(request: Request) -> Iterable[str]:
    """The head on a GPU: instead of being launched, the kernels become those of the op."""
    yield from _signature_on_gpu(request.op)
    yield "  udo::halide::Launches call(operation);"


def _launches(report: Report) -> Iterable[str]:
    """The kernels of each function, as a table."""
    for function in dict.fromkeys(each.function for each in report.launches):
        yield f"const udo::halide::Launch {function}_launches[] = {{"
        for each in report.launches:
            if each.function == function:
                yield f'    {{"{each.entry}", "{each.name}", "{each.arguments}", R"UDO({each.text})UDO"}},'
        yield from ("};", "")


def _may_be_aligned(request: Request, report: Report) -> bool:
    return all(kind == "flat" for kind, _ in report.views) and not request.machine.gpu


def _cut(request: Request, report: Report) -> Iterable[str]:
    """The part that one thread calculates: some elements of all tensors, or some rows of the outputs."""
    outputs = [port.name for port in request.tensors if port.is_output]
    if report.in_one:
        yield "  if (!part.isFirst()) return udo::ok;"
        return
    if not report.elementwise:
        yield "  bool hasWork = false;"
        yield from (f"  if ({name}_.cut(part)) hasWork = true;" for name in outputs)
        yield "  if (!hasWork) return udo::ok;"
        return
    names = [port.name for port in request.tensors]
    tests = {port.name: f"{port.name}_.size() == {outputs[0]}_.size()" for port in request.tensors}
    tests |= {port.name: f"(!args.{port.name} || {tests[port.name]})" for port in request.tensors if port.optional}
    same = " && ".join(test for name, test in tests.items() if name != outputs[0]) or "true"
    yield f"  if ({same}) {{"
    yield from (f"    {name}_.cutElements(part);" for name in names)
    yield f"    if ({outputs[0]}_.size() == 0) return udo::ok;"
    yield "  } else if (!part.isFirst()) {"
    yield "    return udo::ok;"
    yield "  }"


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
    yield from ("float" if kind == "f32" else "std::int32_t" for kind in request.scalars.values())
    for port, stored in present:
        yield from ("float", "std::int32_t") if port.real and stored in _QUANTIZED else ()
    yield from ("udo::halide::Buffer*" for port, _ in present if port.is_output)


def _call(request: Request, report: Report, variant: KernelVariant) -> str:
    """The call of a function."""
    present = _present(request, variant)
    given = [f"&{port.name}_.raw" for port, _ in present if not port.is_output]
    kinds = {"f32": "float", "i32": "std::int32_t"}
    given += [f"static_cast<{kinds[kind]}>(args.{name})" for name, kind in request.scalars.items()]
    for port, stored in present:
        if port.real and stored in _QUANTIZED:
            quantization = f"args.{port.name}.quantization()"
            given += [f"{quantization}.scale", f"{quantization}.offset"]
    given += [f"&{port.name}_.raw" for port, _ in present if port.is_output]
    if request.machine.gpu:
        name = variant.name(request.prefix)
        return f"call.of({name}_launches).run({name}(static_cast<udo::halide::Call*>(&call), {', '.join(given)}))"
    name, arguments = variant.name(request.prefix), ", ".join(given)
    call = f"UDO_HALIDE({name}, {arguments})" if _may_be_aligned(request, report) else f"{name}(&call, {arguments})"
    if report.auto and variant.last:  # a function returns an error before it writes anything
        call = f"{call} == 0 ? 0 : {name}_small(call.again(), {arguments})"
    return f"call.run({call})"


def _views(request: Request, report: Report) -> Iterable[str]:
    for port, (kind, value) in zip(request.tensors, report.views, strict=True):
        more = ""
        if kind == "rows":
            more = f", udo::halide::Rows{{static_cast<int>({f'args.{value}' if isinstance(value, str) else value})}}"
        if kind == "whole":
            more = f", udo::halide::Whole{{{value}}}"
        yield f'  udo::halide::View {port.name}_(call, "{port.name}", args.{port.name}{more});'


def _table_state(request: Request, report: Report, by_types: ByTypes) -> Iterable[str]:
    [variant] = by_types["u8", "u8"].values()
    names = {port.is_output: port.name for port in request.tensors}
    tests = [f"udo::halide::isStoredAs(args.{port.name}, udo::halide::u8)" for port in request.tensors]
    yield from (
        "// Ops of 8 bits look their numbers up in a table that is made once.",
        "struct State {",
        "  bool is_table;",
        "  std::uint8_t table[256];",
        "};",
        "",
        "udo::Status prepare(const Args& args, State& state) {",
        f"  state.is_table = {' && '.join(tests)};",
        "  if (!state.is_table) return udo::ok;",
        "  alignas(128) std::uint8_t codes[256];",
        "  for (int code = 0; code < 256; ++code) codes[code] = static_cast<std::uint8_t>(code);",
        "  udo::halide::Call call;",
        "  call.found(codes);",
        "  call.found(state.table);",
        f"  udo::halide::View {names[False]}_(codes, 256);",
        f"  udo::halide::View {names[True]}_(state.table, 256);",
        f"  return {_call(request, report, variant)};",
        "}",
        "",
    )
