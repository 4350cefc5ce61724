"""The rules that need the library to have run: what registering it showed, and the records it handed over."""

from __future__ import annotations

from collections.abc import Iterator

from udogen.build.package import PROVIDER
from udogen.inspect.rules import SHOWN, STOPS, WARNS, Case, Finding, Rule
from udogen.runtime.failures import OlderRecords


def _registering(case: Case) -> Iterator[Finding]:
    if isinstance(case.records_failure, OlderRecords):  # the one cause of whatever else is seen
        fault, seen = case.records_failure, case.failure
        details = (*fault.details, *((seen.message, *seen.details) if seen else ()))
        yield Finding("records", STOPS, fault.message, fault.hint, details)
    elif case.failure is not None:
        yield Finding("registering", STOPS, case.failure.message, case.failure.hint, case.failure.details)


def _names(case: Case) -> Iterator[Finding]:
    if case.registered is None or not case.registered[0].name:
        return
    package, own = case.registered[0], case.provider.removesuffix(PROVIDER)
    if package.name != own:
        yield Finding(
            "names",
            WARNS,
            f"the package calls itself {package.name}, its provider is {case.provider}",
            f"ONNX Runtime takes the name from the provider: call that {package.name}{PROVIDER}",
        )
    if case.folder is not None and (missing := sorted(set(case.folder.ops) - set(package.operations))):
        yield Finding(
            "names",
            WARNS,
            f"the config has ops that the library has not: {', '.join(missing)}",
            "build it again",
        )


def _recorded(case: Case) -> Iterator[Finding]:
    """What QHPI's records say that a runtime stumbles over."""
    if case.records_failure is not None and not isinstance(case.records_failure, OlderRecords):
        fault = case.records_failure
        yield Finding("records", WARNS, fault.message, fault.hint, fault.details)
    if case.records is None:
        return
    if not case.records.package:
        yield Finding("records", WARNS, "qhpi_init registers nothing", "call qhpi_register_ops_v1 in it")
        return
    package, ops = case.records.package, case.records.ops
    if case.records.returned != package:
        text = f"qhpi_init answers {case.records.returned or 'nothing'}, and registers the ops of {package}"
        yield Finding("records", WARNS, text, f"return {package}")
    functions = [kernel["function"] for op in ops for kernel in op["kernels"]]
    twice = sorted({name for name in functions if functions.count(name) > 1})
    rows = (
        ([op["name"] for op in ops if not op["name"].startswith(f"{package}::")],
         f"ops whose names do not begin with {package}::", f"call them {package}::<Op>"),
        ([op["name"] for op in ops if not op["kernels"]], "ops without a kernel", "add a kernel record"),
        ([op["name"] for op in ops if op["reserved"] or any(kernel["reserved"] for kernel in op["kernels"])],
         "records whose reserved pointers are not NULL", "set every record to {} first"),
        (twice, "kernel names that are used twice, which SDK 2.49 and later refuse", "give each record its own name"),
    )  # fmt: skip
    for names, what, remedy in rows:
        if names:
            yield Finding("records", WARNS, f"it has {what}: {', '.join(sorted(set(names))[:SHOWN])}", remedy)


LIVE: tuple[Rule, ...] = (_registering, _names, _recorded)
