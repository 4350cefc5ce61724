"""Makes a draft of one op from flags (`x:FLOAT_32:4D`, `axis:INT_32=-1`), or reports all faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from udogen.configs import rules
from udogen.errors import UsageError, nearest
from udogen.findings import Findings, Location
from udogen.init.draft import USUAL_BACKENDS, Draft, obstacle
from udogen.opdef import datatypes, names, values
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op, OpPackage, Rank, Tensor, Value

_MARKS = ("optional", "repeated", "static")  # what may follow the rank of an input
_TENSOR_HINT = "as in x:FLOAT_32:4D, x:FLOAT_32,UFIXED_POINT_8, weight:FLOAT_32:1D:static; ranks: 0D … 5D, ND"
_PARAM_HINT = "as in axis:INT_32=-1, epsilon:FLOAT_32, pads:INT_32:1D=[0,0], mode:UINT_32:FLOOR|ROUND=FLOOR"


class _BadTensorText(ValueError):
    """A text does not describe a tensor or parameter; the message has the reason."""


def draft(
    name: str,
    *,
    inputs: Sequence[str],
    outputs: Sequence[str],
    params: Sequence[str] = (),
    package: str = "",
    chosen: Sequence[str] = (),
) -> Draft:
    """The draft of the op that these texts describe; raises an error with all faults in them."""
    faults: list[str] = []
    if symbol := names.fault_of_symbol(name):
        faults.append(f"the name of the op, `{name[:60]}`, {symbol}; try `{names.suggestion(name)}`")
    made_inputs = _read("--input", inputs, lambda text: _tensor(text, "input"), faults)
    made_outputs = _read("--output", outputs, lambda text: _tensor(text, "output"), faults)
    made_params = _read("--param", params, _parameter, faults)
    if not inputs:
        faults.append("it has no input; give one, as in --input x:FLOAT_32:4D")
    if made_inputs and not outputs:
        output = _free("output", [*made_inputs, *made_params])
        made_outputs = [
            replace(made_inputs[0], name=output, role="output", mandatory=True, static=False, repeated=False)
        ]
    op = Op(
        name=name,
        inputs=tuple(made_inputs),
        outputs=tuple(made_outputs),
        params=tuple(sorted(made_params, key=lambda each: not each.is_scalar)),
        backends=tuple(each.upper() for each in chosen or _able([*made_inputs, *made_outputs, *made_params])),
    )
    whole = OpPackage(package or f"{name}OpPackage", (op,), domain="custom", version="1.0")
    if faults := faults or _faults_of(whole):
        raise UsageError(
            f"{name[:60]}: {'1 fault' if len(faults) == 1 else f'{len(faults)} faults'} in its description",
            details=faults,
            hint=f"tensors {_TENSOR_HINT}" if any("--param" not in fault for fault in faults) else _PARAM_HINT,
        )
    return Draft(whole)


def _faults_of(package: OpPackage) -> list[str]:
    """The faults of a package by the rules for configs."""
    findings = Findings()
    rules.check(package, findings)
    return [f"{error.message}: {error.hint}" for error in findings.errors]


def _check_name(name: str) -> None:
    if fault := names.fault_of_tensor(name):
        raise _BadTensorText(f"the name `{name[:60]}` {fault}")


def _tensor(text: str, role: str) -> Tensor:
    """Parse a tensor such as `x:FLOAT_32,UFIXED_POINT_8:4D:optional`; type and rank are optional."""
    name, *parts = text.split(":")
    _check_name(name)
    types: tuple[DataType, ...] = ()
    rank: Rank | None = None
    marks: set[str] = set()
    for part in (each.strip() for each in parts):
        kinds = [datatypes.parse(word.strip()) for word in part.split(",")]
        if all(kinds) and not types:
            types = tuple(kind for kind in kinds if kind is not None)
        elif part.lower() in _MARKS and (role == "input" or part.lower() != "static"):
            marks.add(part.lower())
        elif rank is None and (read := values.parse_rank(part)) is not None and not read.scalar:
            rank = read
        else:
            raise _BadTensorText(f"`{part[:40]}` is neither a data type nor a rank{_meant(part)}")
    return Tensor(
        name=name,
        role=role,
        datatypes=types or (datatypes.BY_NAME["FLOAT_32"],),
        rank=rank or Rank(),
        mandatory="optional" not in marks,
        repeated="repeated" in marks,
        static="static" in marks,
    )


def _parameter(text: str) -> Tensor:
    """Parse `axis:INT_32=-1`, `pads:INT_32:1D=[0,0]`, `mode:UINT_32:FLOOR|ROUND=FLOOR`; optional with a default."""
    head, equals, default = text.partition("=")
    name, *parts = (piece.strip() for piece in head.split(":"))
    _check_name(name)
    datatype: DataType | None = None
    rank = Rank(scalar=True)
    enum: tuple[str, ...] = ()
    for part in parts:
        if datatypes.parse(part) is not None and datatype is None:
            datatype = datatypes.parse(part)
        elif "|" in part and not enum:
            enum = tuple(member.strip() for member in part.split("|"))
        elif (read := values.parse_rank(part)) is not None:
            rank = read
        else:
            raise _BadTensorText(f"`{part[:40]}` is neither a data type nor a rank{_meant(part)}")
    row = datatype or datatypes.BY_NAME["UINT_32" if enum else "FLOAT_32"]
    made = Tensor(name, "param", (row,), rank, enum=enum)
    return replace(made, mandatory=False, default=_default(default, made)) if equals else made


def _default(text: str, param: Tensor) -> Value:
    """The default of a parameter."""
    row = param.datatypes[0]
    value = values.parse_default(text.strip(), [row], param.enum)
    if value is None:
        raise _BadTensorText(f"`{text[:40]}` is not a value of type {row.name}")
    if wrong := values.fault_of_default(value, row, param.rank, enum=param.enum):
        raise _BadTensorText(f"the default {wrong}")
    return value


def _read(option: str, texts: Sequence[str], read: Callable[[str], Tensor], faults: list[str]) -> list[Tensor]:
    tensors = []
    for text in texts:
        try:
            tensors.append(replace(read(text), location=Location(f"{option} {text[:80]}")))
        except _BadTensorText as fault:
            faults.append(f"{option} {text[:80]}: {fault}")
    return tensors


def _free(name: str, tensors: Sequence[Tensor]) -> str:
    taken = {names.identifier(tensor.name) for tensor in tensors}
    return next(candidate for candidate in (name, f"{name}_0", f"{name}_1", f"the_{name}") if candidate not in taken)


def _able(tensors: Sequence[Tensor]) -> list[str]:
    """The usual backends that support these tensors."""
    repeated = next((tensor.name for tensor in tensors if tensor.repeated), "")
    text = next((tensor.name for tensor in tensors if tensor.datatypes[0].kind == "string"), "")
    return [name for name in USUAL_BACKENDS if not obstacle(name, repeated=repeated, text=text)]


def _meant(word: str) -> str:
    close = nearest(word.upper(), datatypes.BY_NAME)
    return f"; did you mean {close}?" if close else ""
