"""Flags or answers (`x:FLOAT_32:4D`, `axis:INT_32=-1`) -> a draft of one op; all faults are reported together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from udogen import backends
from udogen.configs import rules
from udogen.errors import UsageError
from udogen.init.draft import USUAL_BACKENDS, Draft, obstacle
from udogen.opdef import datatypes, names, values
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op, OpPackage, Rank, Tensor
from udogen.opdef.problems import Location, Problems, nearest

_MARKS = ("optional", "repeated", "static")  # what may follow the rank of an input
TENSOR_HINT = "as in x:FLOAT_32:4D, x:FLOAT_32,UFIXED_POINT_8, weight:FLOAT_32:1D:static; ranks: 0D … 5D, ND"
PARAM_HINT = "as in axis:INT_32=-1, epsilon:FLOAT_32, pads:INT_32:1D=[0,0], mode:UINT_32:FLOOR|ROUND=FLOOR"


class BadTensorText(ValueError):
    """A text that describes no tensor or parameter; the message says why."""


def draft(
    name: str,
    *,
    inputs: Sequence[str],
    outputs: Sequence[str],
    params: Sequence[str] = (),
    package: str = "",
    chosen: Sequence[str] = (),
) -> Draft:
    """The op that texts describe; raises an error with everything that is wrong with them."""
    faults: list[str] = []
    symbol = names.fault_of_symbol(name)
    if symbol:
        faults.append(f"the name of the op, `{name[:60]}`, {symbol}: `{names.suggestion(name)}` would do")
    made: list[Tensor] = []
    for option, texts, read in (
        ("--input", inputs, lambda text: tensor(text, "input")),
        ("--output", outputs, lambda text: tensor(text, "output")),
        ("--param", params, parameter),
    ):
        made += _read(option, texts, read, faults)
    if not inputs:
        faults.append("it has no input; give one, as in --input x:FLOAT_32:4D")
    if inputs and not outputs and made:
        first = made[0]
        made.append(
            replace(first, name=_free("output", made), role="output", mandatory=True, static=False, repeated=False)
        )
    op = Op(
        name=name,
        inputs=tuple(each for each in made if each.role == "input"),
        outputs=tuple(each for each in made if each.role == "output"),
        params=tuple(sorted((each for each in made if each.role == "param"), key=lambda each: not each.is_scalar)),
        backends=tuple(each.upper() for each in chosen or _able(made)),
    )
    whole = OpPackage(package or f"{name}OpPackage", (op,), domain="custom", version="1.0")
    if not faults:
        faults = _faults_of(whole)
    if faults:
        count = f"{len(faults)} faults" if len(faults) > 1 else "1 fault"
        raise UsageError(
            f"{name[:60]}: {count} in its description",
            details=faults,
            hint=f"tensors {TENSOR_HINT}" if any("--param" not in each for each in faults) else PARAM_HINT,
        )
    return Draft(whole)


def _faults_of(package: OpPackage) -> list[str]:
    """Its faults by the rules for configs."""
    problems = Problems()
    rules.check(package, problems)
    return [f"{each.message}: {each.hint}" for each in problems.errors]


def tensor(text: str, role: str) -> Tensor:
    """`x:FLOAT_32,UFIXED_POINT_8:4D:optional`; type and rank may be left out."""
    name, *parts = text.split(":")
    fault = names.fault_of_tensor(name)
    if fault:
        raise BadTensorText(f"the name `{name[:60]}` {fault}")
    found: tuple[DataType, ...] = ()
    rank: Rank | None = None
    marks: set[str] = set()
    for part in (each.strip() for each in parts):
        kinds = [datatypes.parse(each.strip()) for each in part.split(",")]
        if all(kinds) and not found:
            found = tuple(each for each in kinds if each is not None)
        elif part.lower() in _MARKS and (role == "input" or part.lower() != "static"):
            marks.add(part.lower())
        elif rank is None and (read := values.parse_rank(part)) is not None and not read.scalar:
            rank = read
        else:
            raise BadTensorText(f"`{part[:40]}` is neither a data type nor a rank{_meant(part)}")
    return Tensor(
        name=name,
        role=role,
        datatypes=found or (datatypes.BY_NAME["FLOAT_32"],),
        rank=rank or Rank(),
        mandatory="optional" not in marks,
        repeated="repeated" in marks,
        static="static" in marks,
    )


def parameter(text: str) -> Tensor:
    """`axis:INT_32=-1`, `pads:INT_32:1D=[0,0]`, `mode:UINT_32:FLOOR|ROUND=FLOOR`; with a default it is optional."""
    head, equals, default = text.partition("=")
    name, *parts = (each.strip() for each in head.split(":"))
    fault = names.fault_of_tensor(name)
    if fault:
        raise BadTensorText(f"the name `{name[:60]}` {fault}")
    found: DataType | None = None
    rank = Rank(scalar=True)
    enum: tuple[str, ...] = ()
    for part in parts:
        if datatypes.parse(part) is not None and found is None:
            found = datatypes.parse(part)
        elif "|" in part and not enum:
            enum = tuple(each.strip() for each in part.split("|"))
        elif (read := values.parse_rank(part)) is not None:
            rank = read
        else:
            raise BadTensorText(f"`{part[:40]}` is neither a data type nor a rank{_meant(part)}")
    row = found or datatypes.BY_NAME["UINT_32" if enum else "FLOAT_32"]
    value = values.parse_default(default.strip(), [row], enum) if equals else None
    if equals and value is None:
        raise BadTensorText(f"`{default[:40]}` is no value of type {row.name}")
    wrong = values.fault_of_default(value, row, rank, enum=enum) if value is not None else None
    if wrong:
        raise BadTensorText(f"the default {wrong}")
    return Tensor(name, "param", (row,), rank, mandatory=not equals, default=value, enum=enum)


def _read(option: str, texts: Sequence[str], read: Callable[[str], Tensor], faults: list[str]) -> list[Tensor]:
    found = []
    for text in texts:
        try:
            found.append(replace(read(text), location=Location(f"{option} {text[:80]}")))
        except BadTensorText as fault:
            faults.append(f"{option} {text[:80]}: {fault}")
    return found


def _free(name: str, tensors: Sequence[Tensor]) -> str:
    taken = {names.identifier(each.name) for each in tensors}
    return next(each for each in (name, f"{name}_0", f"{name}_1", f"the_{name}") if each not in taken)


def _able(tensors: Sequence[Tensor]) -> list[str]:
    """The usual backends, as far as they can take such tensors at all."""
    repeated = next((each.name for each in tensors if each.repeated), "")
    text = next((each.name for each in tensors if each.datatypes[0].kind == "string"), "")
    return [name for name in USUAL_BACKENDS if not obstacle(name, repeated=repeated, text=text)]


def _meant(word: str) -> str:
    close = nearest(word.upper(), datatypes.BY_NAME)
    return f"; did you mean {close}?" if close else ""


# --- answers to questions --------------------------------------------------------------------------------------------


# (question, what Enter means) -> the answer.
Ask = Callable[[str, str], str]
Log = Callable[[str], None]


@dataclass(frozen=True)
class Answers:
    """The answers, as the texts of flags."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    params: tuple[str, ...]
    chosen: tuple[str, ...]


def interview(name: str, *, ask: Ask, log: Log) -> Answers:
    """Ask for everything that a config needs."""
    while not name or names.fault_of_symbol(name):
        if name:
            log(f"  `{name}` {names.fault_of_symbol(name)}; `{names.suggestion(name)}` would do")
        name = ask("What is the op called?", "").strip()
    log(f"Tensors: {TENSOR_HINT}")
    inputs = _several("Input", True, lambda text: tensor(text, "input"), ask, log, "x:FLOAT_32")
    outputs = _several("Output", True, lambda text: tensor(text, "output"), ask, log, "y:FLOAT_32")
    log(f"Parameters: {PARAM_HINT}")
    params = _several("Parameter", False, parameter, ask, log, "")
    return Answers(name, inputs, outputs, params, _backends(ask, log))


def _several(what: str, must: bool, read: Callable[[str], object], ask: Ask, log: Log, usual: str) -> tuple[str, ...]:
    """Answers until an empty one; a required first one has a default."""
    found: list[str] = []
    while True:
        first = must and not found
        text = ask(f"{what} {len(found) + 1}{'' if first else ' (Enter: no more)'}", usual if first else "").strip()
        if not text:
            return tuple(found)
        try:
            read(text)
            found.append(text)
        except BadTensorText as fault:
            log(f"  {fault}")


def _backends(ask: Ask, log: Log) -> tuple[str, ...]:
    while True:
        text = ask("Backends, of " + ", ".join(backends.ALL), " ".join(USUAL_BACKENDS))
        chosen = tuple(dict.fromkeys(text.replace(",", " ").lower().split()))
        strangers = [each for each in chosen if each not in backends.ALL]
        if chosen and not strangers:
            return chosen
        log(f"  `{' '.join(strangers)}` is none of them" if strangers else "  name at least one")
