"""That our kernels ran in ExecuTorch's own runtime: its answer alone does not say that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from udogen.runtime import execution_counts
from udogen.runtime.execution_counts import NotExecuted


@contextmanager
def proving(options: Any) -> Iterator[None]:
    """Around executions in this process: raises `NotExecuted` at the end, where an op of the options was not executed.

    `options` are those the program was lowered with; its method must be loaded before, for that loads the packages:

        method = Runtime.get().load_program("model.pte").load_method("forward")
        with proving(options):
            method.execute([x])
    """
    found = {
        (info.op_package_name, info.qnn_op_type_name): execution_counts.demanded(
            info.op_package_path, info.interface_provider
        )
        for info in options.op_package_infos
        if info.platform.name == "X86_64"
    }
    before = {(package, op): counters.of(op) for (package, op), counters in found.items()}
    yield
    idle = [key for key, counters in found.items() if counters.of(key[1]) == before[key]]
    if idle:
        names = ", ".join(f"{op} of package {package}" for package, op in idle)
        raise NotExecuted(
            f"not executed by the program: {names}",
            hint="where `execute` was called, the program has none of it: `check_delegated` tells at lowering",
        )
