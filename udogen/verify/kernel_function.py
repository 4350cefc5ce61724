"""`@udogen.kernel`: the function of a kernel in Python runs on arrays, is tested, measured and made into a project."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, update_wrapper
from itertools import product
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen import resources
from udogen.errors import ToolMissing, UsageError, VerificationFailed, nearest
from udogen.init import project
from udogen.init.draft import USUAL_BACKENDS, CaseTensor, Draft, DraftCase
from udogen.kernels.objects import stored_as
from udogen.kernels.signature import KernelSignature, Shape, called_while_loaded, signature_of
from udogen.opdef.model import OpPackage
from udogen.resources import pip_install
from udogen.verdict import Verdict
from udogen.verify import tolerances
from udogen.verify.kernel_packets import Arrays, KernelCall, Quants, Types, drawn, packets_of, stored, type_rows
from udogen.verify.report import text
from udogen.verify.test_files import values
from udogen.verify.test_files.references import ReferenceFunction
from udogen.verify.tolerances import Tolerance

if TYPE_CHECKING:
    from udogen.kernels.jit import JitKernel
    from udogen.opdef.datatypes import DataType

_SHAPES = 6  # of a test
_ROUNDED = 1e-5  # of the largest number of an output: its floats may differ so much by rounding alone
_SHOWN = 4  # wrong elements
_CASES = 3  # shapes in a test file


def kernel(function: Callable[..., Any]) -> KernelFunction:
    """Decorate the function of a kernel: `Scale = kernel(Scale)`, or `@udogen.kernel` above `def Scale(x, y, f=2.0)`.

    The result runs on numpy arrays.
    """
    return KernelFunction(function)


class KernelFunction:
    """A kernel in Python: `y = Scale(x, factor=3.0)`, `Scale.test(reference)`, `Scale.package("scale")`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self._function = function
        self._reference: Callable[..., Any] | None = None
        self._tolerance: str | float | Mapping[str, Any] | None = None
        self._given: Mapping[str, Any] = {}

    @cached_property
    def signature(self) -> KernelSignature:
        """The op that the annotations describe."""
        return signature_of(self._function)

    @cached_property
    def _jit(self) -> JitKernel:
        try:
            from udogen.kernels.jit import JitKernel
        except ImportError as fault:
            raise ToolMissing(
                "Halide, which compiles kernels in Python, is not installed", hint=pip_install("kernels")
            ) from fault
        return JitKernel(self.signature, self._function)

    def __call__(self, *arrays: Any, quant: Quants | None = None, **named: Any) -> Any:
        """Compile the kernel for this machine, unless it was, and run it: inputs in their order, parameters by name.

        `quant`: scale and offset of each tensor that is given as stored integers, and of outputs.  An output's name
        gives its shape.  Returns an array, or a tuple of arrays.
        """
        self._refuse_loading()
        call = self._bound(arrays, named)
        types = self._types_of(call.inputs, quant or {})
        found = self._run(call, types, quant or {})
        return found if len(found) > 1 else found[0]

    def test(
        self, reference: Callable[..., Any], *, tolerance: str | float | Mapping[str, Any] | None = None, **given: Any
    ) -> Verdict:
        """Compare with a function of numpy on random inputs of several shapes and all types; raises at wrong numbers.

        `given`: lengths of axes, parameters, or arrays of inputs, by name.  The reference gets the inputs as real
        numbers, and the parameters by name.  `tolerance`: as in test files (`"1e-5 relative"`).
        """
        self._refuse_loading()
        allowed = tolerances.parse(tolerance) if tolerance is not None else {}
        if isinstance(allowed, str):
            raise UsageError(f"tolerance: {allowed}", hint="as in test files")
        self._reference, self._tolerance, self._given = reference, tolerance, given
        expect = ReferenceFunction(getattr(reference, "__name__", "reference"), reference)
        count = 0
        for call, types in self._examples(_SHAPES, given):
            given_as, quants = stored(call.inputs, types)
            reals = {name: values.to_real(array, types[name], quants.get(name)) for name, array in given_as.items()}
            inputs = [reals.get(tensor.name) for tensor in self.signature.op.inputs]
            expected = expect(inputs, call.params, [tensor.name for tensor in self.signature.op.outputs])
            run = replace(call, inputs=given_as)
            for name, array in expected.items():
                if array.shape != call.shapes[name]:
                    raise self._other_shape(name, call, array.shape)
                if types[name].quantized:
                    quants[name] = values.quant_for(*values.finite_range(array), types[name])
            for name, found in zip(run.shapes, self._run(run, types, quants), strict=True):
                wanted = values.store(expected[name], types[name], quants.get(name))
                self._compare(name, found, wanted, tolerances.of(types[name], allowed), run, types)
            count += 1
        return Verdict(count, passed=count)

    def packets(self, *arrays: Any, arch: str = "", **named: Any) -> dict[str, int]:
        """The packets of one execution on Hexagon under QEMU, for each function without floats, by its types.

        Arguments are those of a call; real numbers are stored in the types of each function.
        """
        self._refuse_loading()
        call = self._bound(arrays, named)
        return packets_of(*self.sources(), call, arch=arch, on_step=lambda line: print(line, file=sys.stderr))

    def sources(self) -> tuple[Path, list[Path]]:
        """The kernel as a file with the name of its op, and its config: both in the cache."""
        op, file = self.signature.op, Path(self.signature.file).resolve()
        [config] = self._project(None).configs.values()
        folder = resources.cache_dir("kernels") / f"function-{resources.content_key(bytes(file), config)}"
        kernel, described = folder / "kernels" / f"{op.name}.py", folder / f"{op.name}.xml"
        kernel.parent.mkdir(parents=True, exist_ok=True)
        described.write_bytes(config)
        if not kernel.is_symlink():
            kernel.symlink_to(file)
        return kernel, [described]

    def package(self, name: str, reference: Callable[..., Any] | None = None) -> Path:
        """Write a project `name` with config, kernel, reference and test cases, as `udogen new --kernel python` does.

        The reference is the one that was tested, if none is given.
        """
        self._refuse_loading()
        folder = Path(name)
        project.make(folder, self._project(reference or self._reference), kernel="python")
        return folder

    # --- arguments ------------------------------------------------------------------------------------------------

    def _refuse_loading(self) -> None:
        """Raise if udogen loads a file, and its top level calls this."""
        frame = sys._getframe(1)
        while frame.f_back is not None:
            if frame.f_code.co_name == "<module>" and str(frame.f_globals.get("__name__")).startswith("udogen_of_"):
                raise called_while_loaded(self._function)
            frame = frame.f_back

    def _bound(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> KernelCall:
        op, where = self.signature.op, self.signature.where
        inputs = [tensor.name for tensor in op.inputs]
        if len(arrays) > len(inputs):
            raise UsageError(f"{op.name}() takes {len(inputs)} arrays, not {len(arrays)}", hint=", ".join(inputs))
        given = {**dict(zip(inputs, arrays, strict=False)), **named}
        self._check_names(given)
        there = {name: np.asarray(given[name]) for name in inputs if given.get(name) is not None}
        params = {
            **self.signature.defaults,
            **{param.name: given[param.name] for param in op.params if param.name in given},
        }
        missing = [tensor.name for tensor in op.inputs if tensor.mandatory and tensor.name not in there]
        missing += [param.name for param in op.params if param.name not in params]
        if missing:
            raise UsageError(f"{where}: {op.name}() needs `{missing[0]}`", hint=f"give {missing[0]}=…")
        sizes = self.signature.sizes({name: array.shape for name, array in there.items()}, params)
        usual = next(iter(there.values())).shape
        shapes = {
            tensor.name: self._shape_given(tensor.name, given[tensor.name])
            if tensor.name in given
            else self.signature.shape(tensor.name, sizes, usual)
            for tensor in op.outputs
        }
        return KernelCall(there, params, shapes)

    def _check_names(self, given: Mapping[str, Any]) -> None:
        op, where = self.signature.op, self.signature.where
        known = [tensor.name for tensor in op.tensors]
        for name in given:
            if name not in known:
                close = nearest(name, known)
                raise UsageError(
                    f"{where}: {op.name}() has no `{name}`",
                    hint=f"did you mean {close}?" if close else f"it has {', '.join(known)}",
                )

    def _shape_given(self, name: str, shape: Any) -> Shape:
        try:
            return tuple(index(size) for size in shape)
        except TypeError:
            raise UsageError(
                f"{self.signature.where}: `{name}` is an output, and {shape!r} is not its shape", hint=f"{name}=(2, 3)"
            ) from None

    def _combinations(self) -> list[dict[str, DataType]]:
        """The types of all tensors, for each function of the kernel."""
        return type_rows([*self.signature.op.inputs, *self.signature.op.outputs])

    def _types_of(self, arrays: Arrays, quants: Quants) -> dict[str, DataType]:
        """The types of the function for these arrays."""
        possible = self._combinations()
        for types in possible:
            if all(_fits(array, types[name], name in quants) for name, array in arrays.items()):
                return types
        name, array = next(
            ((name, array) for name, array in arrays.items()
             if not any(_fits(array, types[name], name in quants) for types in possible)),
            next(iter(arrays.items())),
        )  # fmt: skip
        rows = dict.fromkeys(types[name].name for types in possible)
        needs = name not in quants and any(
            types[name].quantized and types[name].numpy == array.dtype.name for types in possible
        )
        raise UsageError(
            f"{self.signature.where}: `{name}` is an array of {array.dtype}, and {self._function.__name__}() takes "
            f"{', '.join(rows)}",
            hint=f"fixed point needs a scale and an offset: quant={{'{name}': (0.05, -128)}}"
            if needs
            else f"convert it, or name the type: {name}: Flat(types=…)",
        )

    def _run(self, call: KernelCall, types: Types, quants: Quants) -> tuple[Any, ...]:
        for name in (*call.inputs, *call.shapes):
            if types[name].quantized and name not in quants:
                raise UsageError(
                    f"{self.signature.where}: `{name}` is {types[name].name}, and has no scale",
                    hint=f"quant={{'{name}': (0.05, -128), …}}",
                )
        inputs = {name: np.ascontiguousarray(array, types[name].numpy) for name, array in call.inputs.items()}
        outputs = {name: np.empty(shape, types[name].numpy) for name, shape in call.shapes.items()}
        kinds = {name: stored_as(row, "cpu") for name, row in types.items()}
        self._jit.run({**inputs, **outputs}, kinds, call.params, quants)
        return tuple(outputs.values())

    # --- tests ----------------------------------------------------------------------------------------------------

    def _examples(self, count: int, given: Mapping[str, Any]) -> Iterator[tuple[KernelCall, dict[str, DataType]]]:
        """Random inputs, each with the types of a function."""
        op, random = self.signature.op, np.random.default_rng(0)
        arrays = {tensor.name: np.asarray(given[tensor.name]) for tensor in op.inputs if tensor.name in given}
        params = {param.name: given[param.name] for param in op.params if param.name in given}
        numbers = {name: value for name, value in given.items() if name not in arrays}
        shapes_given = {name: array.shape for name, array in arrays.items()}
        sizes = self.signature.sizes(shapes_given, {**self.signature.defaults, **numbers})
        optional = [tensor.name for tensor in op.inputs if not tensor.mandatory]
        for shapes in self.signature.examples(count, sizes):
            for types, present in product(self._combinations(), product((True, False), repeat=len(optional))):
                absent = {name for name, is_there in zip(optional, present, strict=True) if not is_there}
                inputs = {
                    tensor.name: arrays.get(tensor.name, drawn(types[tensor.name], shapes[tensor.name], random))
                    for tensor in op.inputs
                    if tensor.name not in absent
                }
                outputs = {tensor.name: shapes[tensor.name] for tensor in op.outputs}
                yield KernelCall(inputs, {**self.signature.defaults, **params}, outputs), types

    def _compare(
        self, name: str, found: Any, expected: Any, tolerance: Tolerance, call: KernelCall, types: Types
    ) -> None:
        """Raise with the first wrong elements of an output."""
        deviation = tolerances.judge(found, expected, tolerance)
        if not deviation.wrong:
            return
        shapes = ", ".join(
            f"{each} {text.shape(array.shape)} {types[each].name}" for each, array in call.inputs.items()
        )
        differences = tolerances.differences(found, expected)
        is_wrong = differences > tolerance.allowed(expected)
        lines = (
            f"{name}[{', '.join(map(str, index))}] is {found[tuple(index)]}, the reference has {expected[tuple(index)]}"
            for index in np.argwhere(is_wrong)[:_SHOWN].tolist()
        )
        hint = f"allowed: {tolerance.words('step' if types[name].quantized else '')}"
        worst, largest = np.max(differences[is_wrong]), np.max(np.abs(expected))
        if worst < _ROUNDED * largest:
            hint += f"; rounding of a long sum is allowed by tolerance='{2 * worst:.0e} + 1e-5 relative'"
        raise VerificationFailed(
            f"{self.signature.where}: {deviation.wrong:,} of {found.size:,} elements of `{name}` ({types[name].name}) "
            f"are wrong, for {shapes}",
            details=lines,
            hint=hint,
        )

    def _other_shape(self, name: str, call: KernelCall, shape: Shape) -> VerificationFailed:
        first, array = next(iter(call.inputs.items()))
        ours, theirs, given = (text.shape(size) for size in (call.shapes[name], shape, array.shape))
        return VerificationFailed(
            f"{self.signature.where}: `{name}` has the shape {ours}, and {theirs} in the reference, "
            f"for `{first}` of {given}",
            hint=f'annotate its shape, as in {name}: Rows(shape="... 1"), {name}: Whole("n k//2")',
        )

    # --- packages -------------------------------------------------------------------------------------------------

    def _project(self, reference: Callable[..., Any] | None) -> project.ProjectFiles:
        op, file = self.signature.op, Path(self.signature.file)
        whole = replace(op, backends=tuple(usual_backend.upper() for usual_backend in USUAL_BACKENDS))
        package = OpPackage(f"{op.name}OpPackage", (whole,), domain="custom", version="1.0")
        kernel = f"kernels/{op.name}.py"
        files, references = {kernel: file.read_bytes()}, {}
        if reference is not None and reference.__qualname__.isidentifier():  # no function inside of another, no lambda
            source = Path(inspect.getfile(inspect.unwrap(reference)))
            place = kernel if source.resolve() == file.resolve() else "reference.py"
            files[place] = source.read_bytes()
            references[op.name] = f"{place}:{reference.__name__}"
        cases = tuple(self._cases()) if reference is not None else ()
        draft = Draft(package, cases=cases, references=references, files=files)
        return project.of_drafts([draft])

    def _cases(self) -> Iterator[DraftCase]:
        op = self.signature.op
        given = self._given
        for call, types in self._examples(_CASES, given):
            shapes = {name: array.shape for name, array in call.inputs.items()}
            first = next(iter(shapes))
            title = f"{text.shape(shapes[first])} {types[first].name}"
            yield DraftCase(
                title + ("" if len(shapes) == len(op.inputs) else f" with {', '.join(shapes)}"),
                op.name,
                {
                    name: CaseTensor(shape, types[name].name, values=_array(given.get(name)))
                    for name, shape in shapes.items()
                },
                {name: CaseTensor(shape, types[name].name) for name, shape in call.shapes.items()},
                {param.name: given[param.name] for param in op.params if param.name in given},
                tolerance=self._tolerance,
            )


def _array(given: Any) -> Any:
    return None if given is None else np.asarray(given)


def _fits(array: Any, row: DataType, is_quantized: bool) -> bool:
    """Whether an array is given as this type; double precision is rounded."""
    if row.quantized != is_quantized:
        return False
    wider = {"float64": "FLOAT_32", "int64": "INT_32"}.get(array.dtype.name)
    return array.dtype == np.dtype(row.numpy) or row.name == wider
