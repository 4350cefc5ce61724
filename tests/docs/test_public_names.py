"""The Python API: names of `udogen` and `udogen.runtime` are documented and lazily loaded; examples use no others."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from types import ModuleType

import pytest

import udogen
import udogen.runtime
import udogen.runtime.ops as ops
import udogen.runtime.quantization as quantization
from tests.making import ROOT

PUBLIC = (udogen, udogen.runtime, ops, quantization)
NAMES = [(module, name) for module in PUBLIC for name in module.__all__]
# Documented in docs/kernels.md; the names in the second module need Halide.
OF_MATH = (
    "absolute",
    "exp",
    "larger",
    "maximum",
    "minimum",
    "scan",
    "scratch",
    "select",
    "sigmoid",
    "smaller",
    "tanh",
    "total",
)
OTHERS = {
    "udogen.kernels": ("Flat", "Rows", "Whole"),
    "udogen.kernels.math": OF_MATH,
    "udogen.onnx.ort": ("session",),  # docs/onnx-runtime.md
}
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda each: getattr(each, "__name__", each))
def test_every_name_exists(module: ModuleType, name: str) -> None:
    assert getattr(module, name) is getattr(module, name)
    assert name in dir(module)


def test_the_document_has_every_name_once_and_no_other_with_a_line_of_use() -> None:
    text = (ROOT / "docs" / "python.md").read_text("utf-8")
    documented = re.findall(r"^\| `(\w+)` \| \S.* \| `([^`]+)` \|$", text, re.MULTILINE)
    assert sorted(name for name, _ in documented) == sorted(name for _, name in NAMES)
    assert len(re.findall(r"^\| `", text, re.MULTILINE)) == len(documented)
    public = {name: getattr(module, name) for module, name in NAMES}
    for _name, line in documented:
        whole = ast.parse(f"try: pass\n{line}" if line.startswith("except") else line)
        for call in (node for node in ast.walk(whole) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Name) and call.func.id in public:
                arguments = {keyword.arg: None for keyword in call.keywords}
                inspect.signature(public[call.func.id]).bind(*call.args, **arguments)  # type: ignore[arg-type]


def test_the_docstring_of_every_class_and_function_shows_a_line_of_use() -> None:
    public = {name: getattr(module, name) for module, name in NAMES}
    described = {name: inspect.getdoc(each) or "" for name, each in public.items() if callable(each)}
    shown = {name: re.findall(r"`([^`]+)`|>>> (.+)", text) for name, text in described.items()}
    assert [name for name, codes in shown.items() if not any(map(_is_use, (a or b for a, b in codes)))] == []


def _is_use(code: str) -> bool:
    """Return whether it is Python code, not only a name."""
    try:
        tree = ast.parse(f"try: pass\n{code}" if code.startswith("except") else code)
    except SyntaxError:
        return False
    uses = (ast.Call, ast.Attribute, ast.Subscript, ast.Compare, ast.ExceptHandler)
    return any(isinstance(node, uses) for node in ast.walk(tree))


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_an_unknown_name_is_an_error(module: ModuleType) -> None:
    with pytest.raises(AttributeError, match=rf"module '{module.__name__}' has no attribute 'Sesion'"):
        module.Sesion  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("statement", "loaded", "not_loaded"),
    [
        ("import udogen", "udogen", ("typing", "udogen.errors")),
        ("import udogen.runtime", "udogen.runtime", ("udogen.qnn", "udogen.errors", "numpy")),
        (
            "import udogen.runtime; udogen.runtime.Runtime",
            "udogen.runtime.contexts.runtime",
            ("udogen.runtime.op.session", "udogen.runtime.channel", "udogen.runtime.snpe.host", "numpy"),
        ),
        ("import udogen.runtime.ops; udogen.runtime.ops.OpSession", "udogen.runtime.op.session", ("numpy",)),
    ],
)
def test_a_module_is_loaded_when_it_is_used(statement: str, loaded: str, not_loaded: tuple[str, ...]) -> None:
    program = f"import sys; {statement}; print(*sys.modules)"
    argv = [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {program}"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    assert loaded in modules
    assert not modules & set(not_loaded)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_import_public_names_only(path: object) -> None:
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):  # type: ignore[attr-defined]
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name.startswith("udogen.")]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "udogen":
            found += [node.attr] if node.attr not in udogen.__all__ else []
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "udogen":
            public = {**OTHERS, **{module.__name__: module.__all__ for module in PUBLIC}}.get(node.module, [])
            found += [f"{node.module}.{name.name}" for name in node.names if name.name not in public]
    assert not found


def test_names_become_fewer() -> None:
    """At most these; a new one takes the place of another."""
    assert [len(module.__all__) for module in PUBLIC] == [26, 28, 7, 11]
    assert len(udogen.__all__) + len(udogen.runtime.__all__) <= 60


def test_the_kind_of_a_runtime_and_its_library_have_one_name_each() -> None:
    """`runtime` is auto, real or emulator; `qnn_lib` a path.  The kinds of memory and of weights are called `kind`."""
    public = {name: getattr(module, name) for module, name in NAMES}
    taken = {name: inspect.signature(each).parameters for name, each in public.items() if inspect.isfunction(each)}
    taken |= {name: inspect.signature(each).parameters for name, each in public.items() if inspect.isclass(each)}
    assert {name for name, given in taken.items() if {"runtime_kind", "explicit"} & given.keys()} == set()
    kinds = {name: given["runtime"].default for name, given in taken.items() if "runtime" in given}
    described = {
        "Outcome",
        "MemoryDomain",
        "Context",
        "Model",
        "register_package",
    }  # an open runtime, or a report of one
    assert {name for name, default in kinds.items() if default != "auto"} - described == set()
    libraries = {"Runtime", "OpSession", "find_runtime", "TestOptions"}
    assert {name for name, given in taken.items() if "qnn_lib" in given} == libraries
