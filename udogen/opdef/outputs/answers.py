"""What rules may answer with: for each output by its name a shape, or a data type."""

from __future__ import annotations

import ast

from udogen.opdef import inference
from udogen.opdef.model import Op, OpPackage, Tensor
from udogen.opdef.outputs.expressions import Expressions
from udogen.opdef.outputs.types import DTYPE, UNKNOWN, WHOLE, datatypes_of, list_of, united
from udogen.opdef.problems import nearest

_MOST_AXES = 8


class Answers:
    """What a rule may answer with: for each output by name a shape, or a data type."""

    def __init__(self, op: Op, package: OpPackage, what: str) -> None:
        self.op, self.package, self.what = op, package, what
        self.said: set[str] | None = None

    def check(self, body: Expressions, node: ast.Return) -> None:
        """Check one answer."""
        example = f"return {{'{self.op.outputs[0].name}': …}}" if self.op.outputs else "return {}"
        if not isinstance(node.value, ast.Dict):
            body.fault(node, f"a rule answers with {self.what}s by the name of the output", f"write {example}")
            return
        names = [str(key.value) if isinstance(key, ast.Constant) else "" for key in node.value.keys]
        known = {each.name: each for each in self.op.outputs}
        for name, value in zip(names, node.value.values, strict=True):
            tensor = known.get(name)
            if tensor is None:
                near = nearest(name, known)
                hint = f"did you mean `{near}`?" if near else f"it has {', '.join(known)}"
                body.fault(value, f"`{self.op.name}` has no output `{name}`", hint)
            elif names.count(name) > 1:
                body.fault(value, f"`{name}` stands twice", "remove one")
            elif self.what == "shape":
                self._shape(body, tensor, value)
            else:
                self._dtype(body, tensor, value)
        said = set(names) & known.keys()
        derive = inference.shape if self.what == "shape" else inference.datatype
        lacking = [n for n, each in known.items() if n not in said and (each.repeated or derive(self.op, each) is None)]
        if lacking:
            body.fault(node, f"this says no {self.what} of `{'`, `'.join(lacking)}`", "and the config says none either")
        if self.said is not None and self.said != said:
            body.fault(
                node, "this answers for other outputs than the answer before", "answer for the same ones each time"
            )
        self.said = said if self.said is None else self.said

    def _shape(self, body: Expressions, tensor: Tensor, value: ast.expr) -> None:
        kind = body.expr(value)
        wanted = list_of(list_of(WHOLE)) if tensor.repeated else list_of(WHOLE)
        if kind == UNKNOWN:
            return
        if united(kind, wanted) is None:
            what = "a list with the shape of each" if tensor.repeated else "a list of whole numbers"
            body.fault(value, f"the shape of `{tensor.name}` is {what}, and this is {kind}", "as in [1, 2, 3]")
            return
        if (
            isinstance(value, ast.List)
            and not tensor.repeated
            and not any(isinstance(e, ast.Starred) for e in value.elts)
        ):
            rank = len(value.elts)
            if tensor.rank.ranks and not tensor.rank.scalar and rank not in tensor.rank.ranks:
                body.fault(
                    value,
                    f"this is a shape of rank {rank}; the config says {tensor.rank} of `{tensor.name}`",
                    "mend one of them",
                )
            elif rank > _MOST_AXES:
                body.fault(value, f"this is a shape of rank {rank}", f"{_MOST_AXES} are the most")

    def _dtype(self, body: Expressions, tensor: Tensor, value: ast.expr) -> None:
        wanted = list_of(DTYPE) if tensor.repeated else DTYPE
        kind = body.expr(value, wanted)
        if kind != UNKNOWN and united(kind, wanted) is None:
            what = "a list with the data type of each" if tensor.repeated else "a data type"
            body.fault(
                value, f"for `{tensor.name}` this must be {what}, and is {kind}", "as in 'FLOAT_32', or op.x.dtype"
            )
            return
        allowed = datatypes_of(tensor, self.op, self.package)
        names = {each.name for each in allowed} | {each.qnn for each in allowed} | {each.snpe for each in allowed}
        plain = value.elts if isinstance(value, ast.List) else [value]
        for each in plain:
            if allowed and isinstance(each, ast.Constant) and each.value not in names:
                body.fault(
                    each,
                    f"the config does not allow `{tensor.name}` to be {each.value!s}",
                    "it allows " + ", ".join(sorted(row.name for row in allowed)),
                )
