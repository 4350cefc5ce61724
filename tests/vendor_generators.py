"""Qualcomm's own generators, from a private copy of an SDK: the configs that they accept, and why they refuse others.

`UDOGEN_VENDOR_GENERATOR` names the SDK's folder (`lib/python`, `share`).  As a program it reads lines with a generator
and a config, runs each generator in a separate process, and prints one JSON object per line.  The SDK's native modules
are not needed to read configs and write packages; empty ones replace them.
"""

from __future__ import annotations

import collections
import collections.abc
import importlib.abc
import importlib.machinery
import json
import os
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

VARIABLE = "UDOGEN_VENDOR_GENERATOR"
QNN, SNPE = "qnn-op-package-generator", "snpe-udo-package-generator"


class Verdict(NamedTuple):
    """The result of one generator for one config."""

    tool: str
    config: str
    accepted: bool
    message: str  # the last line of its output
    files: list[str]  # the files that it wrote


def sdk() -> Path:
    """Return the private copy, of release 2.25; skip the test if none is given."""
    named = os.environ.get(VARIABLE)
    if not named:
        pytest.skip(f"{VARIABLE} names no SDK with Qualcomm's generators")
    if SNPE not in tools(Path(named)):
        pytest.fail(f"{VARIABLE}: {named} has no {SNPE} in Python; name an SDK of release 2.25")
    return Path(named)


def tools(root: Path) -> list[str]:
    """Return the generators of this SDK."""
    snpe = root / "lib/python/qti/aisw/converters/snpe_backend/custom_ops/snpe_udo_config.py"
    return [QNN, SNPE] if snpe.is_file() else [QNN]


def run(root: Path, asked: Iterable[tuple[str, Path]]) -> list[Verdict]:
    """Return the verdicts on pairs of a generator and a config."""
    lines = "".join(f"{tool}\t{Path(config).resolve()}\n" for tool, config in asked)
    made = subprocess.run(
        [sys.executable, __file__, str(root)], input=lines, capture_output=True, text=True, check=False, timeout=3600
    )
    assert made.returncode == 0, made.stderr
    return [Verdict(**json.loads(line)) for line in made.stdout.splitlines()]


class _Nothing(types.ModuleType):
    """A native module of the SDK: each name in it is another such module, which may be called or subclassed."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, _Nothing(name))  # the same object each time: names are keys of tables
        return getattr(self, name)

    def __call__(self, *_values: Any, **_named: Any) -> Any:
        return _Nothing("value")

    def __mro_entries__(self, _bases: Any) -> tuple[type, ...]:
        return ()


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, _path: Any, _target: Any = None) -> importlib.machinery.ModuleSpec | None:
        last = name.rpartition(".")[2]
        return importlib.machinery.ModuleSpec(name, self) if last.startswith("lib") and "Py" in last else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Nothing(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _serve(root: Path) -> None:
    sys.path.insert(0, str(root / "lib/python"))
    os.environ |= {"QNN_SDK_ROOT": str(root), "SNPE_ROOT": str(root), "SNPE_UDO_ROOT": str(root / "share/SNPE/SnpeUdo")}
    sys.meta_path.insert(0, _Finder())
    vars(collections).setdefault("MutableMapping", collections.abc.MutableMapping)  # from old Pythons, for old SDKs
    aisw: Any = _modules(tools(root))
    for line in sys.stdin:
        tool, _, config = line.rstrip("\n").partition("\t")
        print(json.dumps(_judge(aisw, tool, config)), flush=True)


def _modules(names: Sequence[str]) -> dict[str, Any]:
    """Import the programs once, and return them."""
    from importlib import import_module

    common: Any = import_module("qti.aisw.converters.common")
    for name in ("ir_graph", "modeltools", "ir_quantizer"):
        if not hasattr(common, name):
            setattr(common, name, _Nothing(name))
            sys.modules[f"qti.aisw.converters.common.{name}"] = getattr(common, name)
    found = {QNN: import_module("qti.aisw.op_package_generator.parser")}
    if SNPE in names:
        found[SNPE] = import_module("qti.aisw.converters.snpe_backend.custom_ops.snpe_udo_package_generator")
    return found


def _judge(modules: dict[str, Any], tool: str, config: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        child = os.fork()
        if not child:
            _generate(modules, tool, config, Path(folder))
        _, status = os.waitpid(child, 0)
        output = (Path(folder) / "log").read_text("utf-8", "replace").strip()
        files = sorted(str(p.relative_to(folder)) for p in Path(folder).glob("out/**/*") if p.is_file())
    code = os.waitstatus_to_exitcode(status)
    message = output.splitlines()[-1] if output else ""
    return {
        "tool": tool, "config": config, "accepted": code == 0 and bool(files), "message": message, "files": files,
    }  # fmt: skip


def _generate(modules: dict[str, Any], tool: str, config: str, folder: Path) -> None:
    """Run a generator in this child process, and end the process."""
    import traceback

    os.chdir(folder)
    log = os.open("log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code = 1
    try:
        sys.argv = [tool, "-p", config, "-o", "out"]
        own = modules[tool]
        make: Any = modules[QNN].CodeGenerator
        program = make() if tool == QNN else make(parser=own.AutogenParser(), generator=own.AutoGenerator())
        program.setup()
        program.finalize()
        code = 0
    except SystemExit as end:
        code = 1 if end.code else 0
    except BaseException:  # the verdict is its last line
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]).resolve())
