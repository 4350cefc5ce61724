"""Size and coupling of the source: `python -m tests.figures [CHECKOUT ...]` prints a column for each checkout."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.test_house import circles

Graph = dict[str, set[str]]

_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.Assert, ast.comprehension)


def modules(root: Path) -> dict[str, ast.Module]:
    """Return dotted name -> tree of every module of the product."""
    found = {}
    for path in sorted((root / "udogen").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text("utf-8"), str(path))
    return found


def imported(name: str, node: ast.AST, known: Iterable[str]) -> Iterator[str]:
    """Yield the modules of the product that a statement of module `name` imports."""
    if isinstance(node, ast.Import):
        candidates = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
        candidates = [f"{node.module}.{alias.name}" for alias in node.names]
        candidates = [candidate if candidate in known else node.module for candidate in candidates]
    else:
        return
    yield from (candidate for candidate in candidates if candidate in known and candidate != name)


def for_types(tree: ast.Module) -> set[ast.AST]:
    """Return the statements below `if TYPE_CHECKING:`, which are never executed."""
    tests = (node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
    return {inner for node in tests for statement in node.body for inner in ast.walk(statement)}


def in_functions(tree: ast.Module) -> set[ast.AST]:
    """Return the import statements inside functions."""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {inner for node in functions for inner in ast.walk(node) if isinstance(inner, ast.Import | ast.ImportFrom)}


def import_graph(trees: dict[str, ast.Module]) -> Graph:
    """Return module -> the modules that it imports when it is loaded or when its functions run."""
    graph: Graph = {}
    for name, tree in trees.items():
        unseen = for_types(tree)
        nodes = (node for node in ast.walk(tree) if node not in unseen)
        graph[name] = {each for node in nodes for each in imported(name, node, trees)}
    return graph


def complexity(function: ast.AST) -> int:
    """Return the cyclomatic complexity (McCabe) of a function, including nested functions."""
    total = 1
    for node in ast.walk(function):
        total += isinstance(node, _BRANCHES)
        if isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        elif isinstance(node, ast.Match):
            total += len(node.cases)
    return total


def functions(trees: dict[str, ast.Module]) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{name}.{node.name}", node


def classes_twice(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Return class names that several modules define."""
    places = defaultdict(list)
    for name, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
    return {name: where for name, where in places.items() if len(where) > 1}


def one_importer(trees: dict[str, ast.Module], graph: Graph) -> list[str]:
    """Return the modules (not packages) that exactly one other module imports."""
    importers = Counter(other for others in graph.values() for other in others)
    packages = {name.rpartition(".")[0] for name in trees}
    return [name for name in trees if name not in packages and importers[name] == 1]


def public_names(trees: dict[str, ast.Module]) -> int:
    kinds = ast.FunctionDef | ast.ClassDef
    return sum(isinstance(node, kinds) and node.name[0] != "_" for tree in trees.values() for node in tree.body)


def lines(folder: Path, wanted: Callable[[Path], bool]) -> int:
    """Return the number of lines of a folder's text files."""
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sum(path.read_bytes().count(b"\n") for path in files if wanted(path))


def figures(root: Path) -> dict[str, int]:
    """Return all figures of one checkout."""
    trees = modules(root)
    graph = import_graph(trees)
    python = re.compile(r".*\.pyi?$")
    found = {}
    for folder in sorted(path.name for path in (root / "udogen").iterdir() if path.is_dir() and any(path.glob("*.py"))):
        found[f"lines of udogen/{folder}"] = lines(root / "udogen" / folder, lambda path: path.suffix == ".py")
    found["lines of Python"] = lines(root / "udogen", lambda path: path.suffix == ".py")
    found["lines of C, C++, headers"] = lines(root / "udogen", lambda path: path.suffix in (".c", ".cpp", ".h", ".hpp"))
    found["lines of facts (TOML)"] = lines(root / "udogen", lambda path: path.suffix == ".toml")
    found["lines of templates"] = lines(root / "templates", lambda path: True)
    found["lines of tests (Python)"] = lines(root / "tests", lambda path: bool(python.match(path.name)))
    found["lines of golden files"] = lines(root / "tests" / "golden", lambda path: path.suffix != ".py")
    found["modules"] = len(trees)
    found["modules with one importer"] = len(one_importer(trees, graph))
    found["class names in several modules"] = len(classes_twice(trees))
    found["circles of imports"] = len(circles(graph))
    found["imports inside functions"] = sum(len(in_functions(tree)) for tree in trees.values())
    found["functions over complexity 15"] = sum(complexity(node) > 15 for _, node in functions(trees))
    found["functions with over 8 parameters"] = sum(
        len([*node.args.args, *node.args.kwonlyargs]) > 8 for _, node in functions(trees)
    )
    found["public functions and classes"] = public_names(trees)
    return found


def main() -> None:
    columns = [figures(Path(each)) for each in sys.argv[1:] or ["."]]
    for key in dict.fromkeys(key for column in columns for key in column):
        print(f"{key:36}", *(f"{column.get(key, 0):>8,}" for column in columns))


if __name__ == "__main__":
    main()
