"""Rules for every source file: layers of imports, which modules start programs, templates without logic, folders."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from mako import lexer, parsetree

from udogen.kernels.objects import _DECIDING
from udogen.resources import read_toml

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "udogen"

# Imports run downward in this list; modules on one line are one layer.
LAYERS = (
    {"__main__", "compat", "onnx"},
    {"cli"},
    {"verify", "inspect", "doctor", "init", "clients", "adopt"},
    {"runtime"},
    {"generate"},
    {"build"},
    {"kernels"},
    {"configs"},
    {"backends"},
    {"qnn"},
    {"emulator", "documents"},
    {"opdef"},
    {"process", "python_files", "error_tables", "findings", "mako_templates", "verdict", "tables"},
    {"errors", "plugins", "public_calls", "public_names", "resources", "supervisor"},
    {"__init__"},
)

STARTS_PROGRAMS = {"process.py", "supervisor.py"}
# Modules that read the environment, and the part that they read.
READS_ENVIRONMENT = {
    "build/tools.py": "everything a user configures: SDK roots, compilers",
    "process.py": "nothing: it passes the whole of it to a child",
    "resources.py": "XDG_CACHE_HOME",
    "cli/output.py": "NO_COLOR",
}

# Modules that only a user's own references need.
OF_USERS = {"torch"}

HEAVY = {
    "lxml",
    "mako",
    "xmlschema",
    "numpy",
    "cffi",
    "rich",
    "elftools",
    "onnx",
    "xxhash",
    "halide",
}

TOP_LEVEL = {
    "pyproject.toml",
    "udogen",
    "templates",
    "schemas",
    "examples",
    "tests",
    "README.md",
    "docs",
    ".ci",
    "Makefile",
}
ALSO_ALLOWED = {
    *("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "PKG-INFO"),  # hatchling puts the last one into an sdist
    *(".git", ".github", ".gitignore", ".gitattributes", ".editorconfig", ".pre-commit-config.yaml"),
}
# Files that tools create in any folder; never read.
LEFT_BY_TOOLS = {
    ".demo",
    *(".git", ".venv", "__pycache__", "dist", ".idea", ".vscode", ".benchmarks", ".hypothesis"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache"),
}


def files(folder: Path, pattern: str = "*") -> list[Path]:
    """Return every file of the project below a folder, sorted."""
    found = []
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - LEFT_BY_TOOLS)
        found += [Path(here, name) for name in sorted(names) if Path(name).match(pattern)]
    return found


def short(path: Path, base: Path = PACKAGE) -> str:
    return path.relative_to(base).as_posix()


MODULES = files(PACKAGE, "*.py")
TEMPLATES = files(ROOT / "templates", "*.mako")


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of the syntax tree of a module."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))))


# --- layers ---------------------------------------------------------------------------------------


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) of everything that a module imports, at its top or inside functions."""
    package = ["udogen", *path.relative_to(PACKAGE).parent.parts]
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield node.lineno, base
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and called(node) in {"import_module", "__import__"} and node.args:
            yield node.lineno, leading_text(node.args[0])


def called(node: ast.Call) -> str:
    """Return the last name of a call: `import_module` for `importlib.import_module(...)`."""
    return getattr(node.func, "attr", None) or getattr(node.func, "id", "")


def leading_text(node: ast.expr) -> str:
    """Return the constant prefix of a string: for f"udogen.cli.{verb}" it is `udogen.cli.`"""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


@cache
def folder_of(dotted: str) -> str:
    """Return `opdef` for `udogen.opdef.model`; `__init__` for a name that `udogen` itself defines."""
    name = dotted.split(".")[1] if "." in dotted else "__init__"
    return name if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file() else "__init__"


def layer(name: str) -> int:
    for number, names in enumerate(LAYERS):
        if name in names:
            return number
    raise AssertionError(f"udogen/{name} has no place in LAYERS")


def test_imports_run_downward() -> None:
    upward = []
    # Not `udogen` itself, the public API: a module is imported when one of its names is first used.
    for path in (module for module in MODULES if short(module) != "__init__.py"):
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        upward += [
            f"{short(path)}:{line}: {own} imports {name}"
            for line, name in imports(path)
            if name.split(".")[0] == "udogen" and layer(folder_of(name)) < layer(own)
        ]
    assert not upward, "\n".join(upward)


def test_kernels_are_compiled_again_after_each_change_of_their_compiler() -> None:
    """The key of a kernel's object files has all modules that its worker imports, but for those of messages."""
    folder, found, new = PACKAGE / "kernels", set(), {"worker"}
    while new:
        found |= new
        names = [name.split(".") for each in new for _, name in imports(folder / f"{each}.py")]
        named = {name[2] for name in names if name[:2] == ["udogen", "kernels"] and len(name) > 2}
        new = {name for name in named if (folder / f"{name}.py").is_file()} - found
    assert found - {"mistakes", "opencl"} == set(_DECIDING) - {"__init__"}


# --- cycles ---------------------------------------------------------------------------------------


def module_name(path: Path) -> str:
    """Return `udogen.qnn` for udogen/qnn/__init__.py."""
    return ".".join(("udogen", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def needed(path: Path, modules: set[str]) -> set[str]:
    """Return the modules of udogen that a module imports when it runs, at its top or in functions."""
    only_types = {
        line
        for node in nodes(path)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for each in node.body
        for line in range(each.lineno, (each.end_lineno or each.lineno) + 1)
    }
    found = {name for line, name in imports(path) if line not in only_types and name in modules}
    # For `from package import module` only the module: a package with an empty __init__ imports nothing.
    return {name for name in found if not any(other.startswith(f"{name}.") for other in found)} - {module_name(path)}


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return groups of modules that reach each other."""
    reach: dict[str, set[str]] = {}
    for start in graph:
        seen, waiting = set[str](), [start]
        while waiting:
            new = graph.get(waiting.pop(), set()) - seen
            seen |= new
            waiting += new
        reach[start] = seen
    groups = {tuple(sorted(other for other in reach[name] if name in reach.get(other, ()))) for name in graph}
    return sorted(list(group) for group in groups if len(group) > 1)


def test_modules_import_each_other_in_no_circle() -> None:
    modules = {module_name(path) for path in MODULES}
    graph = {module_name(path): needed(path, modules) for path in MODULES}
    found = circles(graph)
    assert not found, "\n".join(" <-> ".join(group) for group in found)


def test_the_finder_of_circles_itself() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}, "e": {"e"}}
    assert circles(graph) == [["b", "c"]]


# --- restricted APIs ------------------------------------------------------------------------------

PROGRAM_MODULES = {"subprocess", "multiprocessing", "pty", "pexpect", "concurrent.futures.process", "popen2"}
PROGRAM_CALLS = re.compile(
    r"os\.(system|popen\w*|exec[lv]\w*|spawn\w+|posix_spawnp?|fork(pty)?)"
    r"|asyncio\.create_subprocess_\w+|(concurrent\.)?futures\.ProcessPoolExecutor|ProcessPoolExecutor"
)
ENVIRONMENT = re.compile(r"os\.(environb?|getenvb?|putenv|unsetenv)")


def dotted_names(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) of the names in a module: `os.environ`, also if it is imported `from os`."""
    for node in nodes(path):
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name | ast.Attribute):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id


def test_programs_are_started_in_one_place() -> None:
    found = []
    for path in (module for module in MODULES if short(module) not in STARTS_PROGRAMS):
        found += [
            f"{short(path)}:{line}: {name}"
            for line, name in imports(path)
            if any(name == module or name.startswith(f"{module}.") for module in PROGRAM_MODULES)
        ]
        found += [f"{short(path)}:{line}: {name}" for line, name in dotted_names(path) if PROGRAM_CALLS.fullmatch(name)]
    assert not found, "only udogen/process.py and its supervisor start programs\n" + "\n".join(found)


def test_environment_is_read_in_one_place() -> None:
    found = []
    for path in (module for module in MODULES if short(module) not in READS_ENVIRONMENT):
        found += [f"{short(path)}:{line}: {name}" for line, name in dotted_names(path) if ENVIRONMENT.fullmatch(name)]
        found += [  # click reads the variable
            f"{short(path)}:{node.value.lineno}: envvar="
            for node in nodes(path)
            if isinstance(node, ast.keyword) and node.arg in {"envvar", "auto_envvar_prefix"}
        ]
    assert not found, "only udogen/build/tools.py reads environment variables\n" + "\n".join(found)


# --- templates ------------------------------------------------------------------------------------

NAME = r"[A-Za-z_]\w*"
DOTTED = rf"{NAME}(\.{NAME})*"
TARGETS = rf"{NAME}(\s*,\s*{NAME})*"
CONTROL = re.compile(
    rf"for\s+({TARGETS}|\({TARGETS}\))\s+in\s+{DOTTED}\s*:|(if|elif)\s+(not\s+)?{DOTTED}\s*:|else\s*:|end(for|if)"
)
FILTERS = {"n", "trim"}
TAGS = {"text"}


def logic(parsed: list[parsetree.Node]) -> Iterator[str]:
    """Yield everything in a template except text, comments, `for` and `if` on a dotted name, and dotted names."""
    for node in parsed:
        if isinstance(node, (parsetree.Text, parsetree.Comment)):
            continue
        if isinstance(node, parsetree.ControlLine):
            # Mako separates `endfor` and `endif` from their statements, and drops the colon.
            text = f"end{node.keyword}" if node.isend else node.text.strip()
            if not CONTROL.fullmatch(text):
                yield f"{node.lineno}: % {text}"
        elif isinstance(node, parsetree.Expression):
            filters = {name.strip() for name in node.escapes.split(",") if name.strip()}
            if not re.fullmatch(DOTTED, node.text.strip()) or filters - FILTERS:
                yield f"{node.lineno}: ${{{node.text.strip()}}} {sorted(filters)}"
        elif isinstance(node, parsetree.Tag) and node.keyword in TAGS:
            yield from logic(node.nodes)
        else:
            yield f"{node.lineno}: {type(node).__name__}"


def test_templates_hold_no_logic() -> None:
    assert TEMPLATES
    found = [
        f"{short(path, ROOT)}:{node}"
        for path in TEMPLATES
        for node in logic(lexer.Lexer(path.read_text(encoding="utf-8"), filename=str(path)).parse().nodes)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "dumb"),
    [
        ("int ${op.name};", True),
        ("% for op in package.ops:\n${op.name}${',' if not loop.last else ''}\n% endfor\n", False),
        ("% for op in ops:\n${op.name}\n% if not loop.last:\n,\n% endif\n% endfor\n", True),
        ("% for name, value in op.pairs:\n${name | trim}\n% endfor\n", True),
        ("% if a.flag:\nx\n% elif not b.flag:\ny\n% else:\nz\n% endif\n", True),
        ("## a comment\n<%doc>more</%doc><%text>${kept}</%text>", True),
        ("% for op in sorted(ops):\n% endfor\n", False),
        ("% if len(ops) > 1:\n% endif\n", False),
        ("% while flag:\n% endwhile\n", False),
        ("${op.name.upper()}", False),
        ("${op.name | h}", False),
        ("<% x = 1 %>", False),
        ("<%! import os %>", False),
        ('<%def name="f()">x</%def>', False),
        ('<%include file="other.mako"/>', False),
    ],
)
def test_the_reader_of_templates_itself(text: str, dumb: bool) -> None:
    assert (not list(logic(lexer.Lexer(text).parse().nodes))) is dumb


# --- quick start, tidy folders ----------------------------------------------------------------------


def test_version_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "udogen", "--version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    imported = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert "udogen" in imported
    # cffi's compiled half is a module with a separate name.
    assert not imported & (HEAVY | {"_cffi_backend"})


def test_what_is_imported_is_a_dependency() -> None:
    """A module that only happens to be installed here is missing on a new machine."""
    project = read_toml((ROOT / "pyproject.toml").read_bytes())["project"]
    lists = (project["dependencies"], *project["optional-dependencies"].values())
    declared = {re.split(r"[^\w-]", line)[0].lower().replace("-", "_") for entry in lists for line in entry}
    distributions = packages_distributions()
    missing = []
    for path in MODULES:
        for line, name in imports(path):
            top = name.split(".")[0]
            if not top or top in sys.stdlib_module_names | OF_USERS | {"udogen"}:
                continue
            owners = {each.lower().replace("-", "_") for each in distributions.get(top, [top])}
            if not owners & declared:
                missing.append(f"{short(path)}:{line}: {top}")
    assert not missing, "in no list of pyproject.toml\n" + "\n".join(missing)


def test_top_level_is_that_of_the_design() -> None:
    names = {path.name for path in ROOT.iterdir()} - LEFT_BY_TOOLS
    assert not names - TOP_LEVEL - ALSO_ALLOWED, "not in the design"
    assert not TOP_LEVEL - names, "missing"


def test_no_package_registry_is_named() -> None:
    # Split, so that this file does not name them either.
    hosts = [
        ("pypi", "org"),
        ("files.python" + "hosted", "org"),
        ("registry.npm" + "js", "org"),
        ("crates", "io"),
        ("deb.debian", "org"),
        ("security.debian", "org"),
        ("archive.ubuntu", "com"),
        ("anaconda", "(org|com)"),
        ("docker", "io"),
        ("ghcr", "io"),
        ("quay", "io"),
    ]
    pattern = re.compile("|".join(rf"\b{re.escape(name)}[.]{end}\b" for name, end in hosts), re.IGNORECASE)
    found = [
        f"{short(path, ROOT)}: {hit.group()}"
        for path in files(ROOT)
        if (hit := pattern.search(path.read_bytes().decode("utf-8", "replace")))
    ]
    assert not found, "\n".join(found)


def test_every_test_folder_but_the_benchmarks_is_collected(pytestconfig: pytest.Config) -> None:
    tests = {path.parent.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")}
    left_out = {
        str(folder)
        for folder in tests
        for name in folder.parts
        for pattern in pytestconfig.getini("norecursedirs")
        if fnmatch(name, pattern)
    }
    assert left_out == {"tests/bench"}


def delayed(path: Path) -> list[tuple[int, list[str]]]:
    """Return (line, modules) of each import inside a function."""
    inside = {
        inner
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    }
    return [
        (node.lineno, [name.name for name in node.names] if isinstance(node, ast.Import) else imported_from(node))
        for node in inside
    ]


def imported_from(node: ast.ImportFrom) -> list[str]:
    known = {module_name(path) for path in MODULES}
    return [str(node.module), *(name for each in node.names if (name := f"{node.module}.{each.name}") in known)]


def test_an_import_inside_a_function_delays_the_loading_of_a_module() -> None:
    """An import of a module that is already loaded belongs to the top."""
    needless = []
    for path in MODULES:
        if rows := delayed(path):
            text = f"import sys\nimport {module_name(path)}\nprint(*sys.modules)"
            done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT, check=True)
            loaded = set(done.stdout.split())
            needless += [f"{path}:{line}: {' '.join(names)}" for line, names in rows if loaded.issuperset(names)]
    assert not needless, "\n".join(needless)
