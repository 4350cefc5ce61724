"""In the child: ask an op package whether it would accept an op as somebody else describes it.

Who describes it may not know the ranks, or call a type otherwise.  A package of ours says what it wants instead; then
it is given that, as far as the description allows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from udogen.qnn import abi
from udogen.qnn.interface import ERROR
from udogen.qnn.tensors import APP_READ, APP_WRITE, STATIC, OpConfig, Param, Scalar, Tensor
from udogen.runtime.op.commands import DescribedOp, DescribedParam, DescribedTensor, Judgement, JudgeOps, OpsJudged
from udogen.runtime.worker.op_package import LoadedPackage

_RANKS = (4, 1, 2, 3, 5)  # for packages that say nothing
_TYPE = re.compile(r"`(?P<name>[^`]+)` is \w+ \(0x[0-9a-f]+\); it must be (?P<wanted>.+)$")
_RANK = re.compile(r"`(?P<name>[^`]+)` has rank \d+; it must be (?P<wanted>\d+)")
# What cannot be mended: the description is of another op.
_OTHER = re.compile(
    r"has \d+ (in|out)puts; it must have|has no parameter `|lacks the mandatory parameter `|must be a (scalar|tensor)"
)


def judge(command: JudgeOps, on_phase: Callable[[str], None]) -> OpsJudged:
    """For each op: whether validateOpConfig accepts it, or why not; `other` where it is another op for sure."""
    on_phase("load the op package")
    said: list[str] = []
    package = LoadedPackage(str(command.library), command.provider)
    package.log_to(lambda _level, text: said.append(text), ERROR)
    init, validate = package.v1_4("init"), package.v1_4("validateOpConfig")
    if not validate:
        return OpsJudged(())
    ffi = abi.ffi()
    if init:
        on_phase("init")
        init(ffi.NULL)
    call = ffi.cast("udogen_TakesOpConfigAlone", validate)
    on_phase("validateOpConfig")

    def accepts(op: OpConfig) -> tuple[bool, str]:
        said.clear()
        return call(op.by_value()) == 0, said[0] if said else ""

    return OpsJudged(tuple(_judge(op, command.package, accepts) for op in command.ops))


def _judge(op: DescribedOp, package: str, accepts: Callable[[OpConfig], tuple[bool, str]]) -> Judgement:
    reason = ""
    for rank in _RANKS:
        types: dict[str, str] = {}
        ranks: dict[str, int] = {}
        for _ in range(2 * len(_all(op)) + 1):
            accepted, reason = accepts(_config(op, package, rank, types, ranks))
            if accepted:
                return Judgement(accepted=True)
            if not _mend(op, reason, types, ranks):
                break
        if _OTHER.search(reason) or _TYPE.search(reason):
            return Judgement(accepted=False, reason=reason, other=True)
    return Judgement(accepted=False, reason=reason)


def _mend(op: DescribedOp, reason: str, types: dict[str, str], ranks: dict[str, int]) -> bool:
    """Take what the package asked for, where the description may mean that."""
    if (match := _RANK.search(reason)) and match["name"] not in ranks:
        ranks[match["name"]] = int(match["wanted"])
        return True
    match = _TYPE.search(reason)
    if match is None or match["name"] in types:
        return False
    allowed: Sequence[str] = next((each.types for each in _all(op) if each.name == match["name"]), ())
    wanted = set(re.findall(r"\w+", match["wanted"]))
    fitting = next((each for each in allowed if each in wanted), None)
    if fitting is None:
        return False
    types[match["name"]] = fitting
    return True


def _all(op: DescribedOp) -> list[DescribedTensor | DescribedParam]:
    return [*op.inputs, *op.outputs, *op.params]


def _config(op: DescribedOp, package: str, rank: int, types: dict[str, str], ranks: dict[str, int]) -> OpConfig:
    def tensor(each: DescribedTensor, role: str) -> Tensor:
        shape = [1] * ranks.get(each.name, rank)
        return Tensor(each.name, dtype=types.get(each.name, each.types[0]), shape=shape, role=role)

    def param(each: DescribedParam) -> Param:
        dtype = types.get(each.name, each.types[0])
        if each.value is not None:
            return Scalar(each.name, dtype, each.value)
        return Tensor(each.name, dtype=dtype, shape=each.shape or [1] * ranks.get(each.name, 1), role=STATIC)

    return OpConfig(
        op.type,
        package=package,
        op_type=op.type,
        inputs=[tensor(each, APP_WRITE) for each in op.inputs],
        outputs=[tensor(each, APP_READ) for each in op.outputs],
        params=[param(each) for each in op.params],
    )
