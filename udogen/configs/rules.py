"""Rules for the model of a config that no schema can express; each reports all of its problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from udogen import backends
from udogen.errors import nearest
from udogen.findings import Findings
from udogen.opdef import names, values
from udogen.opdef.model import Op, OpPackage, Rank, Tensor, TensorSupplement

_ROLE_WORD = {"input": "input", "output": "output", "param": "parameter"}


def check(package: OpPackage, findings: Findings) -> None:
    """Check a package with the rules that do not depend on a backend."""
    _package_name(package, findings)
    _ops_unique(package, findings)
    for op in package.ops:
        for rule in _OP_RULES:
            rule(op, findings)
        if not backends.of_op(op, package) and all(backends.is_known(name) for name in op.backends):
            findings.warn(
                op.location,
                f"op `{op.name}` supports no backend that udogen knows",
                "add <SupportedBackend> (core_types in JSON), or generate with --backend",
            )
        for name in op.backends:
            if not backends.is_known(name):
                findings.warn(
                    op.location, f"op `{op.name}` names an unknown backend, `{_short(name)}`", _known_backend(name)
                )
    _supplements_name_what_exists(package, findings)


def _package_name(package: OpPackage, findings: Findings) -> None:
    fault = names.fault_of_symbol(package.name)
    if fault:
        findings.error(
            package.location,
            f"the package name `{_short(package.name)}` {fault}" if package.name else "the package has no name",
            f"folders and libraries get this name; try `{_short(names.suggestion(package.name, 'MyPackage'))}`",
        )
    if package.language == "xml" and not package.domain:
        findings.warn(package.location, "the Domain of the package is empty", 'converters need one: Domain="aisw"')
    if package.language == "xml" and not package.version:
        findings.warn(package.location, "the package has no Version", 'add Version="1.0"')


def _ops_unique(package: OpPackage, findings: Findings) -> None:
    first: dict[str, Op] = {}
    folded: dict[str, Op] = {}
    for op in package.ops:
        if not op.name:
            continue
        twin = first.setdefault(op.name, op)
        if twin is not op:
            if op.location.file == twin.location.file:
                findings.error(op.location, f"op `{op.name}` is defined twice", f"the first one is at {twin.location}")
            else:  # two equal definitions have been merged already
                findings.error(
                    op.location,
                    f"op `{op.name}` of package `{package.name}` is defined in another file too, and differently",
                    f"the other one is at {twin.location}; make them identical, or rename an op or a package",
                )
            continue
        near = folded.setdefault(op.name.lower(), op)
        if near is not op:
            findings.error(
                op.location,
                f"ops `{near.name}` and `{op.name}` differ only in upper and lower case",
                "their files would collide where file names ignore case; rename one",
            )


def _op_name(op: Op, findings: Findings) -> None:
    fault = names.fault_of_symbol(op.name)
    if fault:
        findings.error(
            op.location,
            f"the op name `{_short(op.name)}` {fault}" if op.name else "an op has no name",
            f"a file and a namespace get this name; try `{_short(names.suggestion(op.name))}`",
        )


def _tensor_names(op: Op, findings: Findings) -> None:
    for tensor in op.tensors:
        fault = names.fault_of_tensor(tensor.name)
        if fault and tensor.name:
            findings.error(
                tensor.location,
                f"the name of {_role(tensor)} `{_short(tensor.name)}` of `{_short(op.name)}` {fault}",
                "letters, digits, `_ . : / -`, brackets and spaces are allowed",
            )
        elif fault:
            article = "an" if tensor.role != "param" else "a"
            of_op = f" of `{_short(op.name)}`" if op.name else ""
            findings.error(tensor.location, f"{article} {_role(tensor)}{of_op} has no name", "give it one")
    seen: dict[tuple[str, str], Tensor] = {}
    for tensor in op.tensors:
        twin = seen.setdefault((tensor.name, ""), tensor)
        if twin is not tensor and tensor.name:
            findings.error(
                tensor.location,
                f"two of the inputs, outputs and parameters of `{op.name}` are called `{tensor.name}`",
                f"the first one is at {twin.location}; rename one",
            )
    by_name = {tensor.name: tensor for tensor in op.tensors}
    for made, group in names.collisions(by_name).items():
        listed = " and ".join(f"`{name}`" for name in group[:4])
        findings.error(
            by_name[group[1]].location, f"{listed} of `{op.name}` become the same C++ name `{made}`", "rename one"
        )


def _repeated_once(op: Op, findings: Findings) -> None:
    for group in (op.inputs, op.outputs):
        for surplus in [tensor for tensor in group if tensor.repeated][1:]:
            findings.error(
                surplus.location,
                f"`{op.name}` has more than one repeated {_role(surplus)}",
                "their boundaries would be ambiguous; keep one",
            )


def _outputs_have_no_default(op: Op, findings: Findings) -> None:
    for tensor in op.outputs:
        if tensor.default is not None or tensor.default_text:
            findings.error(
                tensor.location, f"output `{tensor.name}` of `{op.name}` has a default", "outputs cannot have one"
            )


def _optional_comes_last(op: Op, findings: Findings) -> None:
    for group in (op.inputs, op.outputs):
        optional: Tensor | None = None
        for tensor in group:
            if not tensor.mandatory:
                optional = optional or tensor
            elif optional is not None:
                findings.warn(
                    optional.location,
                    f"{_role(optional)} `{optional.name}` of `{op.name}` is optional, `{tensor.name}` after it is not",
                    "a client that leaves it out must pass a tensor of type NULL in its place",
                )
                break


def _defaults_fit(op: Op, findings: Findings) -> None:
    for tensor in op.tensors:
        default_fits(tensor, op, findings)


def default_fits(tensor: Tensor, op: Op, findings: Findings) -> None:
    """Check the default of a tensor against its types and rank; a different rank is only a warning."""
    if tensor.default is None or not tensor.datatypes:
        return
    loose = tensor.rank if tensor.is_scalar else Rank()
    for rank, report in ((loose, findings.error), (tensor.rank, findings.warn)):
        faults = [
            values.fault_of_default(tensor.default, datatype, rank, enum=tensor.enum) for datatype in tensor.datatypes
        ]
        if all(faults):
            report(
                tensor.location,
                f"the default of `{tensor.name}` of `{op.name}` {faults[0]}",
                f"change the default, `{_short(values.show(tensor.default))}`, or what it is declared as",
            )
            return


def _optional_params_have_defaults(op: Op, findings: Findings) -> None:
    for param in op.params:
        if not param.mandatory and param.default is None and not param.default_text:
            findings.warn(
                param.location,
                f"parameter `{param.name}` of `{op.name}` is optional and has no default",
                "add a <Default>; without one, kernels must check whether it is present",
            )


def _enumerations(op: Op, findings: Findings) -> None:
    for param in op.params:
        for name in dict.fromkeys(name for name in param.enum if param.enum.count(name) > 1):
            findings.error(param.location, f"`{name}` occurs twice in the enumeration of `{param.name}`", "remove one")
        for name in dict.fromkeys(param.enum):
            fault = names.fault_of_tensor(name)
            if fault:
                findings.error(param.location, f"`{name}` in the enumeration of `{param.name}` {fault}", "rename it")
        for made, group in names.collisions(dict.fromkeys(param.enum)).items():
            listed = " and ".join(f"`{name}`" for name in group[:4])
            findings.error(
                param.location, f"{listed} of `{param.name}` become the same C++ name `{made}`", "rename one"
            )
        if param.enum and not all(datatype.integral for datatype in param.datatypes):
            findings.error(
                param.location,
                f"parameter `{param.name}` of `{op.name}` has an enumeration, but is not an integer",
                "use UINT_32 or INT_32",
            )


def _constraint_ids(op: Op, findings: Findings) -> None:
    for tensor in op.tensors:
        ids = [constraint.id for constraint in tensor.constraints]
        for index, constraint in enumerate(tensor.constraints):
            if ids.index(constraint.id) < index:
                findings.warn(
                    constraint.location,
                    f"`{tensor.name}` of `{op.name}` has two constraints with the id {constraint.id}",
                    "supplements refer to constraints by id; make the ids unique",
                )


def _supplements_name_what_exists(package: OpPackage, findings: Findings) -> None:
    ops = {op.name: op for op in package.ops}
    for supplement in package.supplements:
        what = "a supplement" if package.language == "xml" else "per_core_data_types"
        if not supplement.backend:
            findings.error(supplement.location, f"{what} names no backend", 'add Backend="…"')
        elif not backends.is_known(supplement.backend):
            findings.warn(
                supplement.location,
                f"{what} for an unknown backend, `{_short(supplement.backend)}`",
                _known_backend(supplement.backend),
            )
        for name in supplement.supported:
            if name not in ops:
                findings.warn(
                    supplement.location,
                    f"SupportedOps of {supplement.backend} names `{name}`, which is not defined here",
                    _meant(name, ops),
                )
        for entry in supplement.ops:
            op = ops.get(entry.name)
            if op is None:
                findings.warn(
                    entry.location,
                    f"the supplement of {supplement.backend} is for `{entry.name}`, which is not defined here",
                    _meant(entry.name, ops),
                )
                continue
            _supplement_fits(entry.tensors, op, supplement.backend, findings)


def _supplement_fits(entries: Iterable[TensorSupplement], op: Op, backend: str, findings: Findings) -> None:
    known = {(tensor.role, tensor.name): tensor for tensor in op.tensors}
    for entry in entries:
        tensor = known.get((entry.role, entry.name))
        if tensor is None:
            findings.warn(
                entry.location,
                f"the supplement of {backend} is for {_ROLE_WORD[entry.role]} `{entry.name}`, "
                f"which `{op.name}` does not have",
                _meant(entry.name, [name for role, name in known if role == entry.role]),
            )
        elif entry.only_default and tensor.default is None and not tensor.default_text:
            findings.warn(
                entry.location,
                f"{backend} supports only the default of `{entry.name}`, but it has none",
                "add a <Default> to the op definition",
            )


def _known_backend(name: str) -> str:
    close = nearest(name, backends.known_names(), cutoff=0.7)
    return f"did you mean {close}?" if close else "known: " + ", ".join(backends.known_names())


def _short(name: str) -> str:
    """A name shortened for messages."""
    return name if len(name) <= 60 else f"{name[:59]}…"


def _role(tensor: Tensor) -> str:
    return _ROLE_WORD[tensor.role]


def _meant(name: str, known: Iterable[str]) -> str:
    choices = list(known)
    close = nearest(name, choices, cutoff=0.5)
    if close:
        return f"did you mean `{close}`?"
    return "defined are: " + ", ".join(choices[:8]) if choices else "none are defined"


_OP_RULES: tuple[Callable[[Op, Findings], None], ...] = (
    _op_name,
    _tensor_names,
    _repeated_once,
    _outputs_have_no_default,
    _optional_comes_last,
    _defaults_fit,
    _optional_params_have_defaults,
    _enumerations,
    _constraint_ids,
)
