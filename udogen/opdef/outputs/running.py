"""Rules run by Python itself: what the translation to C++ is held against, and for those who need shapes in Python.

The checked functions are compiled, never the file; what C++ does otherwise than Python is done as in C++: whole numbers
have 64 bits, a rule takes so many steps and no more, and what is not there is an error where it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

from udogen.errors import RunFailed, UsageError
from udogen.opdef import inference
from udogen.opdef.model import Tensor
from udogen.opdef.outputs.arithmetic import INDEX, STEP, UNPACKED, ZERO, Fault, Steps, words
from udogen.opdef.outputs.asking import WORDS, Asked, Given, asked_of
from udogen.opdef.outputs.checked import Checked, OpRules, Rules
from udogen.opdef.outputs.rewriting import rewritten
from udogen.opdef.problems import nearest

MOST_AXES = 8


class RuleFailed(RunFailed):
    """A rule answers with an error for these inputs."""

    kind = "rule-failed"


@dataclass(frozen=True)
class Answer:
    """What is known of an output; None where nobody says it."""

    shape: tuple[int, ...] | None
    dtype: str | None


def infer(
    rules: Rules,
    op: str,
    inputs: Mapping[str, Given | Sequence[Given]],
    params: Mapping[str, object] | None = None,
    *,
    outputs: Mapping[str, int] | None = None,
) -> dict[str, Answer]:
    """Shape and data type of each output: as a rule says, else as the config does.

    `outputs`: how many there are of a repeated one, and whether an optional one is there. The answers of a repeated
    output are named `y.0`, `y.1` …
    """
    found = rules.ops.get(op)
    if found is None:
        near = nearest(op, rules.ops)
        raise UsageError(
            f"{rules.file} has no rule for op `{op}`",
            hint=f"did you mean `{near}`?" if near else f"write def {op}(op): …",
        )
    asked = asked_of(found.op, inputs, params or {}, outputs or {})
    answers = {
        what: _run(rules, rule, asked) if rule else {}
        for what, rule in (("shape", found.shapes), ("dtype", found.dtypes))
    }
    answered: dict[str, Answer] = {}
    for index, tensor in enumerate(found.op.outputs):
        number = asked.outputs[tensor.name]
        shapes = _several(answers["shape"], tensor, number) or [_config_shape(found, index, asked)] * number
        dtypes = _several(answers["dtype"], tensor, number) or [_config_dtype(found, index, asked)] * number
        for each in range(number):
            name = f"{tensor.name}.{each}" if tensor.repeated else tensor.name
            shape = shapes[each]
            answered[name] = Answer(None if shape is None else _fit(tensor.name, shape), dtypes[each])
    return answered


def _several(answer: Mapping[str, Any], tensor: Tensor, number: int) -> list[Any]:
    if tensor.name not in answer:
        return []
    if not tensor.repeated:
        return [answer[tensor.name]]
    if len(answer[tensor.name]) != number:
        raise RuleFailed(
            f"the rule answers for {len(answer[tensor.name])} of the output `{tensor.name}`; there are {number}",
            hint=f"len(op.{tensor.name}) says how many there are",
        )
    return list(answer[tensor.name])


def _config_shape(found: OpRules, index: int, asked: Asked) -> Sequence[int] | None:
    said = inference.shape(found.op, found.op.outputs[index])
    inputs = [asked.inputs[each.name] for each in found.op.inputs]
    if isinstance(said, inference.SameAs):
        return inputs[said.input][0].shape
    if isinstance(said, inference.Extents):
        return [each if isinstance(each, int) else inputs[each[0]][0].shape[each[1]] for each in said.extents]
    return None


def _config_dtype(found: OpRules, index: int, asked: Asked) -> str | None:
    said = inference.datatype(found.op, found.op.outputs[index])
    if isinstance(said, inference.Only):
        return said.datatype.name
    if isinstance(said, inference.SameAs):
        return asked.inputs[found.op.inputs[said.input].name][0].dtype
    return None


def _fit(name: str, shape: Sequence[int]) -> tuple[int, ...]:
    if len(shape) > MOST_AXES or any(not 0 < each < 1 << 32 for each in shape):
        raise RuleFailed(
            f"the shape of {name} would be {list(shape)}", hint="an extent is at least 1, and there are at most 8"
        )
    return tuple(shape)


@lru_cache(maxsize=4)
def _compiled(rules: Rules) -> CodeType:
    code: CodeType = compile(rewritten(rules), rules.file, "exec")
    return code


def _run(rules: Rules, rule: Checked, asked: Asked) -> Mapping[str, Any]:
    names: dict[str, Any] = {"__builtins__": {}, **words(Steps()), **WORDS}
    exec(_compiled(rules), names)
    try:
        answer: Mapping[str, Any] = names[rule.key](asked)
        return answer
    except Fault as fault:
        reason = str(fault)
        trace = fault.__traceback__
    except IndexError as fault:
        reason, trace = INDEX, fault.__traceback__
    except ZeroDivisionError as fault:
        reason, trace = ZERO, fault.__traceback__
    except ValueError as fault:  # rules raise one of ours: this is Python's own
        reason, trace = STEP if "zero" in str(fault) else UNPACKED, fault.__traceback__
    line = 0
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == rules.file else line
        trace = trace.tb_next
    raise RuleFailed(f"{rules.file}:{line}: {reason}", hint="the converter op package answers with this error, too")
