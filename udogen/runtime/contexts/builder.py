"""Context binaries made from Python: graphs of built-in and custom ops, with quantization and weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen import error_tables, resources
from udogen.backends import htp
from udogen.errors import RunFailed, UdogenError, UnknownName, UsageError, kind_of, write_file, writing
from udogen.findings import suggestion, unknown
from udogen.opdef import datatypes
from udogen.opdef.datatypes import Named
from udogen.opdef.model import Op
from udogen.qnn.handles import Closing, ContextOptions
from udogen.qnn.interface import LogSink, QnnError
from udogen.qnn.quantization import Quantization
from udogen.qnn.tensors import APP_READ, APP_WRITE, NATIVE, STATIC, OpConfig, Param, QnnTensor, Scalar
from udogen.runtime.arguments import PathArgument
from udogen.runtime.built import Built, find_built
from udogen.runtime.contexts import arrays
from udogen.runtime.contexts.binaries import StoredContext
from udogen.runtime.contexts.context import Context
from udogen.runtime.contexts.context_json import info_json
from udogen.runtime.contexts.graph import Graph
from udogen.runtime.contexts.runtime import Runtime
from udogen.runtime.op.request import CallOptions, params_of

if TYPE_CHECKING:
    from udogen.qnn.handles import GraphHandle
    from udogen.runtime.op.calls import Array

BUILT_IN = "qti.aisw"  # the package of QNN's own ops


class GraphDraft:
    """A graph under construction, from `GraphBuilder.graph`: tensors are passed from op to op.

    Types are named as in configs (FLOAT_32, UFIXED_POINT_8) or in numpy (uint8 with a quantization is fixed point); ops
    with types that the runtime does not support are refused.
    """

    def __init__(self, builder: GraphBuilder, name: str, outputs: Sequence[str], handle: GraphHandle) -> None:
        self.name, self.wanted = name, tuple(outputs)
        self._builder, self._handle = builder, handle
        self.is_finished = False
        self._names: dict[str, QnnTensor] = {}
        self._nodes: set[str] = set()
        self._constants: dict[tuple[str, tuple[int, ...], bytes], QnnTensor] = {}

    def __repr__(self) -> str:
        return f"<GraphDraft {self.name}: {', '.join(self._names) or 'no tensors'}>"

    def input(
        self,
        name: str,
        dtype: Named,
        shape: Sequence[int],
        quant: Quantization = None,
        *,
        dynamic: Sequence[bool] = (),
    ) -> QnnTensor:
        """An input of the graph: `x = graph.input("x", "FLOAT_32", (1, 8))`.

        Axes that may be smaller in an execution have a flag in `dynamic`: `dynamic=(False, True)`.
        """
        flags = tuple(map(bool, dynamic))
        if flags and len(flags) != len(shape):
            raise UsageError(
                f"input `{name}` has {len(shape)} axes and {len(flags)} flags for dynamic ones",
                hint="give one flag for each axis: dynamic=(False, True)",
            )
        return self._add(QnnTensor(name, dtype, shape, quant, role=APP_WRITE, dynamic=flags))

    def weight(self, name: str, array: Array, dtype: Named = "", quant: Quantization = None) -> QnnTensor:
        """A constant: `graph.weight("w", w, "UFIXED_POINT_8", grid_of(w.min(), w.max(), "UFIXED_POINT_8"))`.

        Real numbers are quantized for a fixed-point tensor; without `dtype` the type is that of the array.
        """
        array = np.asarray(array)
        is_named = not (isinstance(dtype, str) and not dtype)
        named = datatypes.name_of(dtype, quantized=quant is not None) if is_named else datatypes.name_of(array.dtype)
        row = datatypes.parse(named)
        if row is None or not row.numpy:
            raise UsageError(
                f"weight `{name}` is {named}, which numpy and QNN do not both have",
                hint="give a data type: FLOAT_32, UFIXED_POINT_8, INT_32 …",
            )
        made = QnnTensor(name, row.name, array.shape, quant, role=STATIC)
        stored = arrays.given_value(array, made, what=f"weight `{name}`")
        made.data = self._builder.constant(stored, f"{self.name}.{name}")
        return self._add(made)

    def op(
        self,
        op: str,
        inputs: Sequence[QnnTensor],
        output: str | QnnTensor,
        *,
        shape: Sequence[int] | None = None,
        like: QnnTensor | None = None,
        quant: Quantization = None,
        params: Mapping[str, Any] | None = None,
        package: str = "",
    ) -> QnnTensor:
        """Add an op with one output: `y = graph.op("MatMul", [x, w], "y", shape=(1, 4))`.

        The output has the type of the first input, or that of `like`, with its shape and quantization unless they are
        given.  An op of a registered package is found by its name; `package` names another package.  Parameters of
        custom ops have the types of their config; those of other ops are numbers, strings, arrays or `Scalar`s
        (integers are UINT_32).
        """
        source = like if like is not None else inputs[0] if inputs else None
        if isinstance(output, str):
            if source is None or (shape is None and like is None):
                raise UsageError(
                    f"the output `{output}` of op `{op}` has no shape", hint="give shape=(…), or like= another tensor"
                )
            quant = quant if quant is not None else like.quant if like is not None else None
            size = tuple(source.shape if shape is None else shape)
            dynamic = source.dynamic if size == source.shape else ()
            output = QnnTensor(output, source.dtype, size, quant, dynamic=dynamic)
        return self.ops(op, inputs, [output], params=params, package=package)[0]

    def ops(
        self,
        op: str,
        inputs: Sequence[QnnTensor],
        outputs: Sequence[QnnTensor],
        *,
        params: Mapping[str, Any] | None = None,
        package: str = "",
    ) -> list[QnnTensor]:
        """Add an op with any number of outputs: `a, b = graph.ops("Split", [x], [Tensor(…), Tensor(…)])`."""
        self._check_own(op, inputs)
        package, described = self._builder.find(op, package)
        given = dict(params or {})
        rows = self._described(op, described, given) if described else [self._param(*row) for row in given.items()]
        roles = [APP_READ if tensor.name in self.wanted else NATIVE for tensor in outputs]
        made = [self._add(replace(each, role=role, id=0)) for each, role in zip(outputs, roles, strict=True)]
        name = made[0].name if made else op
        while name in self._nodes:
            name += "_"
        self._nodes.add(name)
        node = OpConfig(name, package=package, op_type=op, inputs=list(inputs), outputs=made, params=rows)
        what = f"op `{op}` of graph `{self.name}` (output `{name}`)"
        if package == BUILT_IN and op.startswith("Reduce") and "axes" not in given:  # the validation would crash
            raise UsageError(f"{what}: its parameter `axes` is missing", hint='give it: params={"axes": [1]}')
        try:
            self._builder.runtime.validate(node)  # libQnnHtp does not in graphAddNode
            self._handle.add_node(node)
        except QnnError as fault:
            if "dynamic dimension" in " ".join([fault.message, *fault.details]):
                raise self._refused(f"of op `{op}`", [*inputs, *made], fault) from fault
            raise self._builder.refusal(what, node, fault) from fault
        return made

    def _check_own(self, op: str, inputs: Sequence[QnnTensor]) -> None:
        for tensor in inputs:
            if self._names.get(tensor.name) is not tensor:
                raise UsageError(
                    f"the input `{tensor.name}` of op `{op}` is not a tensor of graph `{self.name}`",
                    hint="give what input(), weight() or op() of this graph has returned",
                )

    def _described(self, name: str, described: tuple[Built, Op], given: Mapping[str, Any]) -> list[Param]:
        """Parameters with the types that the config of their op defines."""
        built, op = described
        names = [param.name for param in op.params]
        for key in given:
            if key not in names:
                raise unknown(f"op `{name}` has no parameter", key, names)
        rows: list[Param] = []
        for arg in params_of(op, built, CallOptions({}, params=given)):
            rows.append(arg if isinstance(arg, Scalar) else self._constant(arg.name, arg.dtype, np.asarray(arg.data)))
        return rows

    def _param(self, name: str, value: Any) -> Param:
        """A parameter of an op without a config, typed by its value."""
        if isinstance(value, (Scalar, QnnTensor)):
            return value
        if isinstance(value, (list, tuple)) and all(isinstance(item, int) for item in value):
            value = np.array(value, np.uint32)
        if isinstance(value, (np.ndarray, np.generic)):
            row = next((datatype for datatype in datatypes.ALL if datatype.numpy == str(value.dtype)), None)
            if row is None:
                raise UsageError(f"parameter `{name}` holds {value.dtype}", hint="QNN has float32, int32, uint32 …")
            if isinstance(value, np.generic):
                return Scalar(name, row.name, value.item())
            return self._constant(name, row.name, value)
        kinds = {bool: "BOOL_8", int: "UINT_32", float: "FLOAT_32", str: "STRING"}
        if type(value) not in kinds:
            raise UsageError(f"parameter `{name}` is {kind_of(value)}", hint="give a number, a text or an array")
        return Scalar(name, kinds[type(value)], value)

    def _constant(self, name: str, dtype: str, array: Array) -> Param:
        """A parameter that is an array; equal arrays share one tensor."""
        key = (dtype, array.shape, array.tobytes())
        if key not in self._constants:
            unique = name
            while unique in self._names:
                unique += "_"
            made = QnnTensor(
                unique, dtype, array.shape, data=self._builder.constant(array, f"{self.name}.{unique}"), role=STATIC
            )
            self._constants[key] = self._add(made)
        return name, self._constants[key]

    def _add(self, made: QnnTensor) -> QnnTensor:
        if self.is_finished:
            raise RunFailed(f"graph `{self.name}` is finished", hint="add ops inside the `with` block of the graph")
        if made.name in self._names:
            raise UsageError(f"graph `{self.name}` has a tensor `{made.name}` already", hint="give it another name")
        if datatypes.BY_NAME[made.dtype].quantized and made.quant is None:
            raise UsageError(
                f"tensor `{made.name}` is {made.dtype}, and has no quantization",
                hint=f'give one: quant=grid_of(least, largest, "{made.dtype}")',
            )
        try:
            self._names[made.name] = self._handle.add_tensor(made)
        except RunFailed as fault:
            if any(made.dynamic):
                raise self._refused("", [made], fault) from fault
            raise
        return made

    def _refused(self, where: str, tensors: Sequence[QnnTensor], fault: RunFailed) -> RunFailed:
        """The error for a runtime that does not support dynamic dimensions."""
        names = [f"`{tensor.name}`" for tensor in tensors if any(tensor.dynamic)]
        return RunFailed(
            f"{self._builder.runtime.name} does not support dynamic dimensions {where or 'at all'}: "
            f"tensor{'s' * (len(names) > 1)} {', '.join(names)} of graph `{self.name}`",
            hint="build a graph for each size, or use a runtime or an op that takes them",
            details=[fault.message, *fault.details],
        )

    @property
    def is_dynamic(self) -> bool:
        """Whether it has tensors with dynamic dimensions."""
        return any(any(name.dynamic) for name in self._names.values())

    def check_outputs(self) -> None:
        """Raise if an output is written by no op."""
        missing = [name for name in self.wanted if name not in self._names or self._names[name].role != APP_READ]
        if missing and missing[0] in self._names:
            kind = "an input" if self._names[missing[0]].role == APP_WRITE else "a weight"
            raise UsageError(
                f"`{missing[0]}` is {kind} of graph `{self.name}`, and cannot be its output",
                hint="name an output of an op in outputs=[…]",
            )
        if missing:
            raise UsageError(
                f"no op of graph `{self.name}` writes the output `{missing[0]}`",
                hint=suggestion(missing[0], self._names, f"it has the tensors {', '.join(self._names)}"),
            )


class GraphBuilder(Closing):
    """Builds a context binary with one graph or several.

    >>> with GraphBuilder("htp", packages=["llm/package"]) as builder:
    ...     with builder.graph("step", outputs=["y"]) as graph:
    ...         x = graph.input("x", "FLOAT_32", (1, 8))
    ...         graph.op("Relu", [x], "y", like=x)
    ...     builder.save("forward_0.bin")

    With `share_weights`, which HTP has, equal weights of its graphs are stored once.

    `builder = GraphBuilder("htp", packages=[folder])`
    """

    def __init__(
        self,
        backend: str = "htp",
        *,
        packages: Sequence[PathArgument] = (),
        runtime: str | Runtime = "auto",
        soc: int | str = 0,
        log: LogSink | None = None,
        name: str = "new",
        share_weights: bool = False,
    ) -> None:
        with ExitStack() as stack:
            if isinstance(runtime, Runtime):
                self.runtime = runtime
            else:
                self.runtime = stack.enter_context(Runtime(backend, runtime=runtime, soc=soc, log=log))
            self._built = [find_built(Path(package), backend=backend) for package in packages]
            for package in self._built:
                self.runtime.register(package.library, package.provider)
            if share_weights and self.runtime.backend != htp.BACKEND.id:
                raise UsageError(
                    f"contexts of {self.runtime.backend} store the weights of each graph",
                    hint="only those of htp share",
                )
            options = ContextOptions(htp={"WEIGHT_SHARING_ENABLED": True}) if share_weights else None
            self.context: Context = stack.enter_context(self.runtime.new_context(name, options=options))
            self._constants: dict[bytes, tuple[bytearray, list[str]]] = {}
            self.graphs: dict[str, Graph] = {}
            self._drafted: set[str] = set()
            self._stack = stack.pop_all()

    def __repr__(self) -> str:
        state = "closed" if self.context.closed else ", ".join(self.graphs) or "no graphs"
        return f"<GraphBuilder of {self.runtime.name}: {state}>"

    def constant(self, array: Array, user: str) -> bytearray:
        """The bytes of an array, once for all its users: graphs and tensors of them."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        key = hashlib.blake2b(data, digest_size=32).digest()
        if key not in self._constants:
            self._constants[key] = bytearray(data), []
        kept, users = self._constants[key]
        users.append(user)
        return kept

    @property
    def shared(self) -> dict[tuple[str, ...], int]:
        """The bytes of weights that several tensors share: `builder.shared["prefill.w", "decode.w"]`.

        They are one buffer in memory, and are stored once with `share_weights`.
        """
        return {tuple(users): len(kept) for kept, users in self._constants.values() if len(users) > 1}

    def __enter__(self) -> GraphBuilder:
        self.context.check_open()
        return self

    @contextmanager
    def graph(self, name: str, outputs: Sequence[str]) -> Iterator[GraphDraft]:
        """Compose a graph inside `with`; at its end it is finalized, and can be executed: `builder.graphs[name]`."""
        self.context.check_open()
        if not name or name in self._drafted:
            what = f"has a graph `{name}` already" if name else "cannot have a graph without a name"
            raise UsageError(f"context {self.context.name} {what}", hint="give it another name")
        self._drafted.add(name)
        handle = self.context.new_graph(name)
        draft = GraphDraft(self, name, outputs, handle)
        try:
            yield draft
            draft.check_outputs()
            self.graphs[name] = self.context.finalize_graph(handle)
        except BaseException:
            if draft.is_dynamic:
                self.context.abandon()
            raise
        finally:
            draft.is_finished = True

    def find(self, op: str, package: str) -> tuple[str, tuple[Built, Op] | None]:
        """The package of an op, and its config, if it has one."""
        for built in self._built:
            if package not in ("", built.package) or (not package and built.config is None):
                continue
            built_op = built.op(op, self.runtime.backend)
            if built_op is not None:
                return built.package, (built, built_op)
        return package or BUILT_IN, None

    def refusal(self, what: str, node: OpConfig, fault: QnnError) -> UdogenError:
        """The error for a node that the runtime refuses: a misspelt name, or the reason that it logged."""
        if fault.row.name == "QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND":
            names = [operation.name for operation in self.runtime.operations() if operation.package == node.package]
            if node.op_type not in names:
                has = f"{self.runtime.name} has {len(names)} ops of package `{node.package}`"
                return UnknownName(f"{what}: there is no such op", hint=suggestion(node.op_type, names, has))
        reason = error_tables.refusal(fault.logged) or fault.row.meaning
        known = str(resources.facts("built_in_params").get(node.op_type, "?")).split()
        strange = [name for name, _ in node.params if name not in known]
        if node.package == BUILT_IN and known != ["?"] and strange and "param" in reason.lower():
            return UnknownName(
                f"{what} has no parameter `{strange[0]}`",
                hint=suggestion(strange[0], known, f"it has: {', '.join(known) or 'none'}"),
                details=fault.logged,
            )
        return RunFailed(
            f"{what} is refused by {self.runtime.path.name}: {reason}",
            hint="correct its inputs, outputs and parameters, which are listed here",
            details=[*node.lines(), fault.message, *dict.fromkeys(fault.logged)],
        )

    def save(self, path: PathArgument) -> Path:
        """Write the binary, a manifest with its checksum (<file>.udogen.json) and its JSON (<name>_json.json)."""
        place = Path(path)
        self.context.check_open()
        if not self.graphs:
            raise UsageError(f"{place} would have no graph", hint="with builder.graph(…) as graph: …")
        with writing(place):
            place.parent.mkdir(parents=True, exist_ok=True)
        self.context.save(place)
        described = place.with_name(f"{place.stem}_json.json")
        with StoredContext(place, use_json=False) as stored:
            write_file(described, info_json(stored.info))
        return place

    def close(self) -> None:
        """Free the context, and the runtime if the builder opened it."""
        self._stack.close()
