"""docs/architecture.md: its table is the tree, in the order of the layers; the files that it and changes.md name."""

from __future__ import annotations

import re

from tests.test_house import LAYERS, PACKAGE, ROOT

TEXT = (ROOT / "docs" / "architecture.md").read_text("utf-8")
ROW = re.compile(r"^\| (\d+) \| (?:`([\w/]+)`|its top) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)


def modules(text: str) -> list[str]:
    return re.findall(r"`(\w+)`", text)


def test_the_table_is_the_tree() -> None:
    listed = {folder: modules(names) for _, folder, names in ROW.findall(TEXT) if folder}
    folders = {path.parent for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"} - {PACKAGE}
    tree = {
        folder.relative_to(PACKAGE).as_posix(): sorted(
            path.stem for path in folder.glob("*.py") if path.stem[:2] != "__"
        )
        for folder in folders
    }
    found = {folder: sorted(set(names) - {"__main__"}) for folder, names in listed.items() if folder != "emulator"}
    assert found == tree
    top = {name for _, folder, names in ROW.findall(TEXT) if not folder for name in modules(names)}
    assert top == {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}


def test_the_order_is_that_of_the_layers() -> None:
    for number, folder, names in ROW.findall(TEXT):
        layer = LAYERS[int(number) - 1]
        assert {folder.split("/")[0]} <= layer if folder else set(modules(names)) <= layer, (number, folder)


def test_files_that_are_named_exist() -> None:
    text = TEXT + (ROOT / "docs" / "changes.md").read_text("utf-8")
    named = set(re.findall(r"`((?:udogen|templates|tests|schemas)(?:/[\w.]+)+)`", text))
    assert named and [each for each in sorted(named) if not (ROOT / each).exists()] == []
    short = set(re.findall(r"`((?:cli|generate|runtime|worker|qnn|verify|backends|opdef)/[\w/]+\.py)`", text))
    places = (PACKAGE, PACKAGE / "runtime")
    assert [each for each in sorted(short) if not any((place / each).is_file() for place in places)] == []
