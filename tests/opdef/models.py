"""Models made by hypothesis: what both languages can say, and everything that the model can hold."""

from __future__ import annotations

import dataclasses

from hypothesis import strategies as st

from udogen.opdef.datatypes import ALL, BACKEND_SPECIFIC
from udogen.opdef.model import (
    Constraint,
    Op,
    OpPackage,
    OpSupplement,
    Passage,
    QuantParam,
    Rank,
    Reference,
    Supplement,
    Tensor,
    TensorSupplement,
    Value,
)

SYMBOLS = st.from_regex(r"[A-Z][A-Za-z0-9]{0,8}", fullmatch=True)
NAMES = st.sampled_from(["x", "in[0]", "a b", "default", "f(x)", "0", "beta", "p.q", "r/s", "t:0"])
# White space is folded by both readers; what XML cannot hold is no text of a config.
TEXTS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=12)
PROSE = st.lists(TEXTS, min_size=1, max_size=3).map(" ".join)
LAYOUTS = st.sampled_from(["", "NHWC", "NCHW", "NHCW", "NDHWC", "UNDEFINED", "BACKEND_SPECIFIC"])
NUMBERS = st.sampled_from([0, 1, 2, 100])
# What Qualcomm's reader of JSON has words for, or what at least has no other name there.
TYPES = st.sampled_from([row for row in ALL if not row.name.startswith(("UFIXED", "SFIXED_POINT_32", "BOOL"))])
COMMON_LAYOUTS = st.sampled_from(["", "NHWC", "NONTRIVIAL"])
CORES = st.sampled_from(["CPU", "GPU", "DSP"])


def defaults(rank: Rank, *, floats: bool = False) -> st.SearchStrategy[Value | None]:
    """A default that every numeric type can hold."""
    leaf = st.sampled_from([0.0, 0.5, 1.5]) if floats else NUMBERS
    if rank.scalar:
        return st.none() | leaf
    return st.none() | leaf | st.lists(leaf, min_size=1, max_size=3).map(tuple)


@st.composite
def common_tensors(draw: st.DrawFn, role: str, name: str) -> Tensor:
    """A tensor that both languages can say."""
    rank = Rank(scalar=role == "param" and draw(st.booleans()))
    datatype = draw(TYPES)
    numeric = datatype.kind not in ("string", "bool")
    default = draw(defaults(rank, floats=datatype.kind == "float")) if numeric and role != "output" else None
    return Tensor(
        name=name,
        role=role,
        datatypes=(datatype,),
        rank=rank,
        layout="" if rank.scalar else draw(COMMON_LAYOUTS),
        mandatory=role != "param" or default is None,
        default=default,
        repeated=False,
        static=role == "input" and draw(st.booleans()),
    )


@st.composite
def common_ops(draw: st.DrawFn, name: str) -> Op:
    """An op that both languages can say."""
    names = draw(st.permutations(["x", "in[1]", "a b", "default", "beta", "p.q"]))
    params = [draw(common_tensors("param", each)) for each in names[4 : 4 + draw(st.integers(0, 2))]]
    backends = tuple(draw(st.lists(CORES, unique=True, max_size=4)))
    archs = (
        tuple(draw(st.lists(st.sampled_from(["v65", "v66", "v68", "v73"]), unique=True))) if "DSP" in backends else ()
    )
    return Op(
        name=name,
        inputs=tuple(draw(common_tensors("input", each)) for each in names[: draw(st.integers(1, 2))]),
        outputs=tuple(draw(common_tensors("output", each)) for each in names[2 : 2 + draw(st.integers(1, 2))]),
        params=tuple(sorted(params, key=lambda each: not each.is_scalar)),
        backends=backends,
        dsp_archs=archs,
    )


@st.composite
def common_packages(draw: st.DrawFn) -> OpPackage:
    """A package that both languages can say."""
    name, *ops = draw(st.lists(SYMBOLS.filter(_fine), min_size=2, max_size=4, unique_by=str.lower))
    found = tuple(draw(common_ops(each)) for each in ops)
    cores = draw(st.lists(CORES, unique=True, min_size=1, max_size=2))
    open_op, chosen = found[0], found[0].inputs[0]
    if draw(st.booleans()) and chosen.default is None:
        opened = dataclasses.replace(chosen, datatypes=(BACKEND_SPECIFIC,))
        found = (dataclasses.replace(open_op, inputs=(opened, *open_op.inputs[1:])), *found[1:])
        supplements = tuple(
            Supplement(core, (OpSupplement(open_op.name, (TensorSupplement(chosen.name, "input", (draw(TYPES),)),)),))
            for core in cores
        )
    else:
        supplements = ()
    return OpPackage(name, found, supplements=supplements)


def _fine(name: str) -> bool:
    from udogen.opdef.names import fault_of_symbol

    return fault_of_symbol(name) is None


# --- everything -------------------------------------------------------------------------------------------

CONSTRAINTS = st.builds(
    Constraint,
    id=st.integers(-3, 1000),
    type=st.sampled_from(["", "Number", "Shape", "Value", "Datatype", "Description", "Dynamic_Shape"]),
    text=PROSE,
    code=st.just("") | PROSE,
)
PASSAGES = st.builds(Passage, text=PROSE, code=st.booleans())
QUANTS = st.builds(
    QuantParam,
    encodings=st.lists(st.sampled_from(["SCALE_OFFSET", "AXIS_SCALE_OFFSET"]), max_size=2).map(tuple),
    axes=st.lists(TEXTS, max_size=2).map(tuple),
    settings=st.sampled_from([(), (("Symmetric", "true"),), (("Scale", "1.0"), ("Offset", "0"))]),
)
REFERENCES = st.builds(Reference, source=st.just("") | PROSE, url=st.just("") | PROSE, text=st.just("") | PROSE)


@st.composite
def rich_tensors(draw: st.DrawFn, role: str, name: str) -> Tensor:
    """A tensor with anything that XML can say."""
    rank = draw(
        st.sampled_from([Rank(), Rank((1,)), Rank((1, 4)), Rank((0,)), *([Rank(scalar=True)] * (role == "param"))])
    )
    datatypes = tuple(
        draw(
            st.lists(
                st.sampled_from([row for row in ALL if row.kind in ("int", "uint", "float")]),
                min_size=1,
                max_size=3,
                unique=True,
            )
        )
    )
    enum: tuple[str, ...] = ()
    if role == "param" and all(row.integral for row in datatypes):
        enum = draw(st.sampled_from([(), ("NEAREST", "LINEAR")]))
    default: Value | None = None
    default_text = ""
    if role != "output":
        default = draw(st.sampled_from([None, 0, 1]))
        default_text = draw(st.sampled_from(["", "N-1", "{0,..,0}"])) if default is None else ""
    return Tensor(
        name=name,
        role=role,
        datatypes=datatypes,
        rank=rank,
        layout=draw(LAYOUTS),
        shape_text=draw(st.just("") | PROSE),
        mandatory=draw(st.booleans()),
        default=default,
        default_text=default_text,
        repeated=role != "param" and draw(st.booleans()),
        static=role == "input" and draw(st.booleans()),
        enum=enum,
        constraints=tuple(draw(st.lists(CONSTRAINTS, max_size=2, unique_by=lambda each: each.id))),
        description=tuple(draw(st.lists(PASSAGES, max_size=2))),
        quant=tuple(draw(st.lists(QUANTS, max_size=1))),
        dynamic_shape=None if role == "param" else draw(st.none() | PROSE),
    )


@st.composite
def rich_ops(draw: st.DrawFn, name: str) -> Op:
    """An op with anything that XML can say."""
    names = draw(st.permutations(["x", "in[1]", "a b", "default", "beta", "p.q"]))
    backends = tuple(draw(st.lists(st.sampled_from(["CPU", "GPU", "HTP", "DSP", "AIC", "LPAI"]), unique=True)))
    archs = tuple(draw(st.lists(st.sampled_from(["v65", "v68", "v73"]), unique=True))) if "DSP" in backends else ()
    return Op(
        name=name,
        inputs=tuple(draw(rich_tensors("input", each)) for each in names[: draw(st.integers(1, 2))]),
        outputs=tuple(draw(rich_tensors("output", each)) for each in names[2 : 2 + draw(st.integers(1, 2))]),
        params=tuple(draw(rich_tensors("param", each)) for each in names[4 : 4 + draw(st.integers(0, 2))]),
        description=tuple(draw(st.lists(PASSAGES, max_size=2))),
        references=tuple(draw(st.lists(REFERENCES, max_size=2))),
        backends=backends,
        dsp_archs=archs,
        use_default_translation=draw(st.sampled_from([None, True, False])),
    )


@st.composite
def rich_packages(draw: st.DrawFn) -> OpPackage:
    """A package with anything that XML can say; the supplements too, also for what is not defined."""
    name, *ops = draw(st.lists(SYMBOLS.filter(_fine), min_size=2, max_size=3, unique_by=str.lower))
    found = tuple(draw(rich_ops(each)) for each in ops)
    entries = st.builds(
        TensorSupplement,
        name=st.sampled_from([tensor.name for tensor in found[0].tensors] + ["nowhere"]),
        role=st.sampled_from(["input", "output", "param"]),
        datatypes=st.lists(
            st.sampled_from([row for row in ALL if row.kind in ("int", "float")]), max_size=2, unique=True
        ).map(tuple),
        layouts=st.lists(st.sampled_from(["NHWC", "NCHW"]), max_size=2).map(tuple),
        shape_text=st.just("") | PROSE,
        default=st.sampled_from([None, 1]),
        constraints=st.lists(CONSTRAINTS, max_size=1).map(tuple),
        quant=st.lists(QUANTS, max_size=1).map(tuple),
        only_default=st.booleans(),
    )
    supplements = st.builds(
        Supplement,
        backend=st.sampled_from(["CPU", "GPU", "HTP", "DSP_V68"]),
        ops=st.lists(
            st.builds(
                OpSupplement, name=st.sampled_from([*ops, "Nowhere"]), tensors=st.lists(entries, max_size=2).map(tuple)
            ),
            min_size=1,
            max_size=2,
        ).map(tuple),
        supported=st.lists(st.sampled_from(ops), max_size=2).map(tuple),
        runtime=st.just("") | PROSE,
    )
    return OpPackage(
        name,
        found,
        domain=draw(st.just("") | PROSE),
        version=draw(st.sampled_from(["", "1.0", "1.0.0"])),
        use_qhpi=draw(st.sampled_from([None, True, False])),
        supplements=tuple(draw(st.lists(supplements, max_size=2))),
    )
