"""The smoke test of a config from a model: generated, built, and run with the model's shapes; numbers are not checked.

The kernels do nothing and return ok: the test shows that the runtime registers and validates the op and passes it
tensors of these shapes and types.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tests.making import cpu_package, htp_package, need_runtime
from udogen.init.draft import CaseTensor, Draft
from udogen.opdef.datatypes import BY_NAME
from udogen.runtime.op.request import CallOptions, make_call
from udogen.runtime.ops import OpSession

_KERNEL = """#include "ops/%(op)s.hpp"

namespace ops::%(package)s::%(op)s {

udo::Status execute(const Args&) { return udo::ok; }

}  // namespace ops::%(package)s::%(op)s
"""


def array(tensor: CaseTensor) -> np.ndarray:
    """Return an input of a case."""
    dtype = np.dtype(BY_NAME[tensor.dtype].numpy)
    if tensor.values is not None:
        return tensor.values.reshape(tensor.shape).astype(dtype)
    return np.random.default_rng(2026).integers(0, 2, tensor.shape).astype(dtype)


def run(draft: Draft, config: Path, out: Path, *, backend: str) -> int:
    """Run every case of a draft in the real runtime of a backend; return how many ran."""
    need_runtime(backend)
    kernels = out / "kernels"
    kernels.mkdir(parents=True)
    for op in draft.package.ops:
        (kernels / f"{op.name}.cpp").write_text(_KERNEL % {"op": op.name, "package": draft.package.name})
    built = (htp_package if backend == "htp" else cpu_package)(config, out / "packages", kernels)
    ran = 0
    with OpSession(built.library, built.provider, backend=backend, timeout=60) as session:
        for case in draft.cases:
            if case.backends and backend not in case.backends:
                continue
            tensors: Mapping[str, CaseTensor] = {**case.inputs, **case.outputs}
            options = CallOptions(
                inputs={name: array(each) for name, each in case.inputs.items()},
                params=case.params,
                quants={name: each.quant for name, each in tensors.items() if each.quant},
                dtypes={name: each.dtype for name, each in tensors.items()},
                shapes={name: each.shape for name, each in case.outputs.items()},
            )
            result = session.run(make_call(built.op(case.op, backend), built, case.op, options))
            for name, each in case.outputs.items():
                assert result.outputs[name].shape == each.shape
            ran += 1
    return ran
