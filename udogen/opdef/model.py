"""The model of a config in either language.

Equality ignores locations, so that a config that is converted there and back is equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from udogen.findings import Location
from udogen.opdef.datatypes import BACKEND_SPECIFIC, DataType

Value = bool | int | float | str | tuple["Value", ...]

NOWHERE = Location("")


@dataclass(frozen=True)
class Rank:
    """The ranks a tensor may have; none listed means any.  `scalar` is a parameter passed by value."""

    ranks: tuple[int, ...] = ()
    scalar: bool = False

    def __str__(self) -> str:
        if self.scalar:
            return "SCALAR"
        return " or ".join(f"{rank}D" for rank in self.ranks) or "ND"


@dataclass(frozen=True)
class Constraint:
    """A restriction in words; `id` lets a supplement replace it."""

    id: int
    type: str
    text: str
    code: str = ""
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Passage:
    """One piece of a description: prose, or code."""

    text: str
    code: bool = False


@dataclass(frozen=True)
class Reference:
    """The origin of an op."""

    source: str = ""
    url: str = ""
    text: str = ""


@dataclass(frozen=True)
class QuantParam:
    """Supported quantization of a tensor (newer OpDef releases); texts as written."""

    encodings: tuple[str, ...]
    axes: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()  # Symmetric, Scale, Offset, Min, Max, IsMathInvariant


@dataclass(frozen=True)
class Tensor:
    """An input, an output or a parameter."""

    name: str
    role: str  # input, output, param
    datatypes: tuple[DataType, ...]
    rank: Rank = Rank()
    layout: str = ""
    shape_text: str = ""
    mandatory: bool = True
    default: Value | None = None
    default_text: str = ""  # a default that is not a value, such as `N-1`
    repeated: bool = False
    static: bool = False
    enum: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    description: tuple[Passage, ...] = ()
    quant: tuple[QuantParam, ...] = ()
    dynamic_shape: str | None = None
    quantization_mode: str = ""
    only_default: bool = False
    converted: tuple[DataType, ...] = ()  # further types that a package accepts, converted to the first of `datatypes`
    given: bool = False  # it is optional, but the backend requires it
    location: Location = field(default=NOWHERE, compare=False)

    @property
    def accepted(self) -> tuple[DataType, ...]:
        """The types that a client may give."""
        return (*self.datatypes, *self.converted)

    @property
    def optional(self) -> bool:
        """A node may lack it, if the backend allows that."""
        return not self.mandatory or self.default is not None

    @property
    def required(self) -> bool:
        """It cannot be absent: it is mandatory without a default, or the backend requires it."""
        return self.given or (self.mandatory and (self.default is None or self.repeated))

    @property
    def is_scalar(self) -> bool:
        """A parameter that is passed by value, not as a tensor."""
        return self.role == "param" and (self.rank.scalar or self.rank.ranks == (0,))

    @property
    def backend_specific(self) -> bool:
        """True if supplements define the data type."""
        return BACKEND_SPECIFIC in self.datatypes


@dataclass(frozen=True)
class TensorSupplement:
    """Changes of a tensor on one backend; empty fields are as in the op definition."""

    name: str
    role: str
    datatypes: tuple[DataType, ...] = ()
    layouts: tuple[str, ...] = ()
    shape_text: str = ""
    default: Value | None = None
    constraints: tuple[Constraint, ...] = ()
    quant: tuple[QuantParam, ...] = ()
    only_default: bool = False
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class OpSupplement:
    """Changes of an op on one backend."""

    name: str
    tensors: tuple[TensorSupplement, ...]
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Supplement:
    """All changes on one backend."""

    backend: str
    ops: tuple[OpSupplement, ...] = ()
    supported: tuple[str, ...] = ()
    runtime: str = ""
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Op:
    """One operation."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    params: tuple[Tensor, ...] = ()
    description: tuple[Passage, ...] = ()
    references: tuple[Reference, ...] = ()
    backends: tuple[str, ...] = ()  # CPU, GPU, DSP, HTP, AIC, LPAI …
    dsp_archs: tuple[str, ...] = ()  # v65, v68 …
    use_default_translation: bool | None = None
    location: Location = field(default=NOWHERE, compare=False)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Inputs, outputs and parameters, in this order."""
        return (*self.inputs, *self.outputs, *self.params)

    def with_all_inputs(self) -> Op:
        """The op with all inputs required, as the C++ interface of HTP has no kernel for a node that lacks one."""
        return replace(
            self, inputs=tuple(replace(tensor, given=True) if tensor.optional else tensor for tensor in self.inputs)
        )


@dataclass(frozen=True)
class OpPackage:
    """One package of ops, as one config (or several of the same package name) describes it."""

    name: str
    ops: tuple[Op, ...]
    domain: str = ""
    version: str = ""
    use_qhpi: bool | None = None
    supplements: tuple[Supplement, ...] = ()
    output_path: str = ""  # UDO_PACKAGE_PATH
    snpe_udo_root: str = ""  # SNPE_UDO_ROOT
    sources: tuple[str, ...] = field(default=(), compare=False)  # the config files
    language: str = field(default="xml", compare=False)
    location: Location = field(default=NOWHERE, compare=False)

    def with_ops(self, ops: tuple[Op, ...]) -> OpPackage:
        """The same package with other ops."""
        return replace(self, ops=ops)
