"""Generated files, byte for byte, and that they compile without a warning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.golden import TREES, trees
from tests.making import COMPILERS, CONFIGS, ROOT, compiler, make, make_packages, need_opencl, need_runtime
from udogen import PackageLibrary, RunFailed
from udogen.opdef.model import Tensor
from udogen.runtime.built import find_built
from udogen.runtime.op.request import CallOptions, make_call
from udogen.runtime.ops import OpSession

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array


def test_generated_trees_are_the_golden_ones() -> None:
    made = trees()
    kept = {path.relative_to(TREES).as_posix(): path.read_bytes() for path in TREES.rglob("*") if path.is_file()}
    assert sorted(made) == sorted(kept), "run `make golden` and look at the difference"
    changed = [path for path in made if made[path] != kept[path]]
    assert not changed, "run `make golden` and look at the difference"


@pytest.mark.parametrize(("backend", "files", "lines"), [("cpu", 15, 2900), ("htp", 18, 3200)])
def test_packages_have_only_what_their_ops_need(backend: str, files: int, lines: int, tmp_path: Path) -> None:
    for example in ("leaky_relu/LeakyRelu.xml", "add_sat_u8/AddSatU8.xml"):
        [made] = make_packages([ROOT / "examples" / example], tmp_path, chosen=[backend])
        assert len(made.rendered) <= files
        assert sum(data.count(b"\n") for data in made.rendered.values()) <= lines


@pytest.mark.parametrize("name", COMPILERS)
@pytest.mark.parametrize("config", sorted(CONFIGS.iterdir()), ids=lambda path: path.name)
def test_untouched_packages_compile_without_a_warning(config: Path, name: str, tmp_path: Path) -> None:
    cxx = compiler(name)
    for made in make_packages([config], tmp_path):
        native = [name for part in made.plan.parts for name in part.targets if name.endswith("_x86")]
        if not native:
            continue  # for devices only: tests/build
        done = make(made.folder, *native, cxx=cxx)
        assert done.returncode == 0, done.stdout + done.stderr
        assert not done.stderr, done.stderr
        for part in made.plan.parts:
            if part.backend in ("cpu", "gpu", "htp"):
                each_op_reports_that_it_is_not_written(made.folder, part.backend)


def kernel_of(package: PackageLibrary, name: str) -> str:
    """Return the user-owned file of an op."""
    [kernel] = [path for path in package.user_owned if path.endswith(f"/{name}.cpp") and path in package.sources]
    return kernel


def each_op_reports_that_it_is_not_written(folder: Path, backend: str) -> None:
    """Registered in the real runtime, each op of the untouched package reaches its kernel."""
    need_opencl() if backend == "gpu" else need_runtime(backend)
    built = find_built(folder, backend=backend)
    assert built.folder is not None
    with OpSession(built.library, built.provider, backend=backend, timeout=60) as session:
        assert session.package.operations == built.folder.ops
        for name in built.folder.ops:
            op = built.op(name, backend)
            assert op is not None
            arrays = {tensor.name: an_array(tensor) for tensor in op.inputs if tensor.mandatory}
            quants = {tensor.name: (0.5, 0) for tensor in (*op.inputs, *op.outputs) if tensor.datatypes[0].quantized}
            params = {tensor.name: a_value(tensor) for tensor in op.params if tensor.mandatory}
            shapes = {
                tensor.name: (1,) * tensor.rank.ranks[0]
                for tensor in op.outputs
                if tensor.mandatory and tensor.rank.ranks
            }
            options = CallOptions(inputs=arrays, params=params, quants=quants, shapes=shapes)
            with pytest.raises(RunFailed) as caught:
                session.run(make_call(op, built, name, options))
            output = "\n".join([str(caught.value), *caught.value.details])
            function = "setKernelInfo()" if backend == "gpu" else "execute()"
            assert f"{name} is not implemented: write {function} in {kernel_of(built.folder, name)}" in output


def an_array(tensor: Tensor) -> Array:
    rank = tensor.rank.ranks[0] if tensor.rank.ranks else 1
    return np.ones((1,) * rank, tensor.datatypes[0].numpy)


def a_value(tensor: Tensor) -> object:
    if tensor.datatypes[0].kind == "string":
        return "text"
    return 1 if tensor.is_scalar else an_array(tensor)
