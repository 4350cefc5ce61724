"""A registration library of SNPE: the rules of its verdict, and what it tells, for the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from udogen.errors import RunFailed
from udogen.inspect.checks import STOPS, WARNS, Case, Finding, Rule
from udogen.qnn import udo
from udogen.runtime.snpe import host as udo_host
from udogen.runtime.snpe.registration import RegisteredOp, RegisteredParam, RegisteredTensor, Registration


def _functions(case: Case) -> Iterator[Finding]:
    exports = case.facts.elf.exports
    if missing := [name for name in udo.FUNCTIONS if name not in exports]:
        remedy = "declare them with UDO_API, and see jni/src/reg for those that it must have"
        yield Finding("functions", STOPS, f"it exports no {', '.join(missing)}", remedy)


def _told(case: Case) -> Iterator[Finding]:
    if case.failure is not None:
        yield Finding("told", STOPS, case.failure.message, case.failure.hint, case.failure.details)
    if case.registration is None:
        return
    found = case.registration
    if not found.package:
        yield Finding("told", STOPS, "it names no package", "a network finds its ops by the name of their package")
    if not found.ops:
        yield Finding("told", STOPS, "it has no op", "generate it again: the config has lost its ops")
    named = [core for core, _ in found.libraries]
    for core in found.cores:
        if core not in named:
            yield Finding("told", STOPS, f"it is for {core}, and names no library of it", "generate it again")
    rows = list(found.libraries)
    for core, name in dict.fromkeys(row for row in rows if rows.count(row) > 1):
        again = "generate and build it again: where a core has several libraries, each has a name of its own"
        yield Finding("told", WARNS, f"it names {name} for {core} {rows.count((core, name))} times", again)
    if found.api_version[:1] != (1,):
        version = ".".join(map(str, found.api_version))
        yield Finding(
            "told", STOPS, f"it is built with API {version} of UDO", "build it with headers of SNPE 2.x (1.6)"
        )


def _libraries(case: Case) -> Iterator[Finding]:
    """Whether the loader would find what it names: only a warning, as that is a matter of the place."""
    if case.registration is None:
        return
    for core in udo_host.BACKENDS.values():
        if not case.registration.libraries_of(core):
            continue
        try:
            udo_host.implementation(case.registration, core)
        except RunFailed as fault:
            yield Finding("libraries", WARNS, fault.message, fault.hint, fault.details)


UDO: tuple[Rule, ...] = (_functions, _told, _libraries)


# --- for the report -----------------------------------------------------------------------------------------------


def lines(found: Registration) -> Iterator[tuple[str, str]]:
    """(label, text) of what it tells."""
    numbers = [".".join(map(str, version)) for version in (found.version, found.api_version)]
    yield "package", f"{found.package} {numbers[0]}, API {numbers[1]} of UDO"
    yield "libraries", ", ".join(f"{core} {name}" for core, name in found.libraries) or "none"
    for op in found.ops:
        yield "op", _op(op)


def _op(op: RegisteredOp) -> str:
    inputs, outputs = (", ".join(map(_tensor, tensors)) or "nothing" for tensors in (op.inputs, op.outputs))
    params = "; ".join(map(_param, op.params))
    return f"{op.type} for {' '.join(op.cores)}: {inputs} -> {outputs}" + (f"; {params}" if params else "")


def _tensor(tensor: RegisteredTensor) -> str:
    """`x FLOAT_32 NHWC`, or `x (CPU FLOAT_32, DSP UINT_8)` where the cores differ."""
    types = set(tensor.types.values())
    told = types.pop() if len(types) == 1 else f"({', '.join(f'{c} {t}' for c, t in tensor.types.items())})"
    flags = [word for word, flag in (("repeated", tensor.repeated), ("static", tensor.static)) if flag]
    layout = [] if tensor.layout in ("", "LAST") else [tensor.layout]
    return " ".join([tensor.name, told, *layout, *flags])


def _param(param: RegisteredParam) -> str:
    if param.kind == "tensor":
        shape = "x".join(map(str, param.shape))
        return f"{param.name} {param.type} tensor" + (f" {shape}" if shape else "")
    return f"{param.name} {param.type or 'text'} = {param.value!r}"


def as_json(found: Registration) -> dict[str, Any]:
    """Everything that it tells, as plain data."""
    from dataclasses import asdict

    return {**asdict(found), "path": str(found.path), "libraries": [list(row) for row in found.libraries]}
