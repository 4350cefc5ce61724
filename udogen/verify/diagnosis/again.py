"""The op of a case, executed again in the session that it ran in: with a poison, other inputs, other params."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from udogen.errors import RunFailed
from udogen.runtime.built import Built
from udogen.runtime.op.calls import OpCall, OpResult
from udogen.runtime.op.request import CallOptions, make_call
from udogen.verify.diagnosis.wrong_output import Arrays, Params, Quants, Reference

if TYPE_CHECKING:
    from udogen.opdef.model import Op


@dataclass(frozen=True)
class Again:
    """A `Rerun` of one op in a session: `run` is the session's."""

    run: Callable[[OpCall], OpResult]
    built: Built
    op_type: str
    op: Op | None
    inputs: Arrays
    expected: Arrays
    params: Params = field(default_factory=dict)
    quants: Quants = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    reference: Reference | None = None  # says how large the outputs of other inputs are

    def __call__(
        self, *, poison: int = 0, loops: int = 1, inputs: Arrays | None = None, params: Params | None = None
    ) -> Arrays:
        """What the op answers."""
        given = self.inputs if inputs is None else inputs
        wanted = self.params if params is None else params
        options = CallOptions(
            inputs={name: np.ascontiguousarray(array) for name, array in given.items()},
            params=wanted,
            quants=self.quants,
            dtypes=self.dtypes,
            shapes=self._shapes(given, wanted),
            loops=loops,
        )
        call = make_call(self.op, self.built, self.op_type, options)
        return self.run(replace(call, poison=poison)).outputs

    def _shapes(self, inputs: Arrays, params: Params) -> dict[str, tuple[int, ...]]:
        if all(array.shape == self.inputs[name].shape for name, array in inputs.items()):
            return {name: array.shape for name, array in self.expected.items()}
        if self.reference is None:
            raise RunFailed(f"nothing says what shapes the outputs of op `{self.op_type}` have for other inputs")
        try:
            answers = self.reference(inputs, params, self.quants)
        except Exception as problem:  # a user's function, asked about shapes it was not written for
            raise RunFailed(f"the reference of op `{self.op_type}` does not take these inputs: {problem}") from problem
        return {name: np.shape(array) for name, array in answers.items()}
