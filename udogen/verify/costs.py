"""What a case costs: times with their spread, numpy and the vendor's op beside them, packets, bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from udogen.backends.backend import Place
from udogen.errors import UdogenError
from udogen.runtime.op.calls import OpCall, OpResult, ParamArg
from udogen.runtime.op.session import OpSession
from udogen.verify.cases import Case
from udogen.verify.places import Session
from udogen.verify.results import Cost, Outcome, Spread
from udogen.verify.suite.model import Builtin

_SECONDS = 0.1  # to be spent on measuring one thing
_FEWEST, _MOST = 10, 2000


def of(case: Case, call: OpCall, result: OpResult, place: Place) -> Cost:
    """What a run tells of its cost without having been asked."""
    outputs = result.outputs.values()
    given = [each.array.nbytes for each in call.inputs if each.array is not None]
    numbers = sum(array.size for array in outputs)
    return Cost(
        execute=spread(result.times.samples) if place.watched else None,  # QEMU's time says nothing
        finalize=result.times.finalize if place.watched else None,
        packets=result.packets.total if result.packets else None,
        functions=result.packets.functions if result.packets else (),
        kernel=result.kernel,
        bytes_moved=sum(given) + sum(array.nbytes for array in outputs),
        operations=None if case.operations is None else case.operations * numbers,
    )


def spread(samples: Sequence[float]) -> Spread | None:
    """The median and the 10th and 90th percentile; None without samples."""
    if not samples:
        return None
    ordered = sorted(samples)

    def at(share: float) -> float:
        return ordered[round(share * (len(ordered) - 1))]

    middle = (at(0.5) + ordered[(len(ordered) - 1) // 2]) / 2
    return Spread(middle, at(0.1), at(0.9), len(ordered))


def measure(outcome: Outcome, session: Session, call: OpCall, place: Place) -> Cost:
    """The same with care: enough executions, numpy and, where one is named, the vendor's own op in the same process."""
    cost, case = outcome.cost, outcome.case
    if case.origin is not None:
        cost = replace(cost, numpy=spread(_timed(case.origin.baseline)))
    if not isinstance(session, OpSession):
        return cost
    loops = case.loops or _loops(outcome.execute)
    session.run(replace(call, loops=1))  # on HTP the first graph of a process stays three times as slow as the others
    cost = replace(cost, execute=spread(session.run(replace(call, loops=loops)).times.samples))
    if isinstance(case.builtin, Builtin):
        name = f"{case.builtin.package}::{case.builtin.op}"
        try:
            times = session.run(_builtin_call(case.builtin, call, loops)).times
            cost = replace(cost, builtin=spread(times.samples), builtin_name=name)
        except UdogenError as fault:
            cost = replace(cost, builtin_name=name, builtin_fault=fault.message)
    return cost


def _loops(seconds: float) -> int:
    return max(_FEWEST, min(_MOST, int(_SECONDS / seconds) if seconds > 0 else _MOST))


def _timed(function: Callable[[], object]) -> list[float]:
    """The first call, which may have to warm up, does not count where there is time for more."""
    samples: list[float] = []
    until = time.perf_counter() + _SECONDS
    while len(samples) < _FEWEST or (time.perf_counter() < until and len(samples) < _MOST):
        begun = time.perf_counter()
        function()
        samples.append(time.perf_counter() - begun)
        if len(samples) > 1 and time.perf_counter() > until:
            break
    return samples[1:] or samples


def _builtin_call(builtin: Builtin, call: OpCall, loops: int) -> OpCall:
    """The vendor's own op on the same tensors."""
    params = tuple(_param(name, value) for name, value in builtin.params.items())
    return replace(call, op_type=builtin.op, package=builtin.package, params=params, loops=loops)


def _param(name: str, value: object) -> ParamArg:
    """Whole numbers of built-in ops are UINT_32 but for those that are negative."""
    if isinstance(value, bool):
        return ParamArg(name, value, "BOOL_8")
    if isinstance(value, float):
        return ParamArg(name, value, "FLOAT_32")
    if isinstance(value, int):
        return ParamArg(name, value, "UINT_32" if value >= 0 else "INT_32")
    import numpy as np

    return ParamArg(name, np.asarray(value, np.uint32), "UINT_32")
