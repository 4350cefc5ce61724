"""Generating again: the user's changes are kept, generated parts are updated, and no content is dropped."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.command_line import succeeds, udogen
from tests.making import ONE_KERNEL, ONE_OP, ROOT, make_well
from tests.opdef.texts import op, param
from udogen.resources import content_key

FIRST = ONE_OP
KERNEL = "src/ops/LeakyRelu.cpp"
HEADER = "include/ops/LeakyRelu.hpp"
SUPPORT = "include/udogen.hpp"

OPENS = """
import json, os, sys
opened = []
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and not (arguments[2] or 0) & os.O_DIRECTORY:
        opened.append(arguments[0])
from udogen.cli.main import main
sys.argv = [sys.argv[3], "generate", sys.argv[1], "-o", sys.argv[2]]
sys.addaudithook(hook)
try:
    main()
except SystemExit as end:
    assert not end.code
files = [path for path in opened if not path.endswith((".py", ".pyc", ".pth"))]
with open(sys.argv[0], "w") as out:
    json.dump(files, out)
"""

PARAM = param("limit", default="6")
OP = op(name="Twice")


class Work:
    """A config that changes, and the package generated from it."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "LeakyRelu.xml"
        self.config.write_text(FIRST.read_text("utf-8"), "utf-8")
        self.out = folder / "out"
        self.package = self.out / "LeakyReluPackage"

    def grow(self) -> None:
        """Add one param and one op."""
        text = self.config.read_text("utf-8")
        text = text.replace("      <SupportedBackend>", PARAM + "      <SupportedBackend>", 1)
        self.config.write_text(text.replace("  </OpDefList>", OP + "  </OpDefList>"), "utf-8")

    def shrink(self) -> None:
        """Restore the first version."""
        self.config.write_text(FIRST.read_text("utf-8"), "utf-8")

    def generate(self, *options: str) -> subprocess.CompletedProcess[str]:
        return udogen("generate", self.config, "-o", self.out, *options)

    def actions(self, *options: str) -> dict[str, str]:
        done = self.generate("--json", *options)
        assert done.returncode == 0, done.stdout + done.stderr
        [package] = json.loads(done.stdout)["packages"]
        return {file["path"]: file["action"] for file in package["files"]}

    def edit(self, path: str, old: str, new: str) -> None:
        text = (self.package / path).read_text("utf-8")
        assert old in text
        (self.package / path).write_text(text.replace(old, new, 1), "utf-8")

    def text(self, path: str) -> str:
        return (self.package / path).read_text("utf-8")

    def state(self) -> dict[str, tuple[bytes, int]]:
        """Return every file with its content and time."""
        files = (path for path in self.out.rglob("*") if path.is_file())
        return {str(path.relative_to(self.out)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.fixture
def work(tmp_path: Path) -> Work:
    made = Work(tmp_path)
    assert made.generate().returncode == 0
    return made


def compiles(work: Work) -> None:
    make_well(work.package)


def test_twice_the_same_changes_nothing(work: Work) -> None:
    before = work.state()
    assert set(work.actions().values()) == {"unchanged"}
    assert work.state() == before


def test_an_edited_kernel_stays_and_the_new_param_and_op_arrive(work: Work) -> None:
    work.edit(
        KERNEL,
        "return udo::notImplemented",
        "if (args.input.size() == 0) return udo::ok;\n  return udo::notImplemented",
    )
    mine = work.text(KERNEL)
    work.grow()
    actions = work.actions()
    assert work.text(KERNEL) == mine
    assert actions[KERNEL] == "kept"
    assert actions["src/ops/Twice.cpp"] == actions["include/ops/Twice.hpp"] == "created"
    assert actions[HEADER] == actions["Makefile"] == "updated"
    assert "float limit = 6.0f;" in work.text(HEADER)
    compiles(work)
    work.edit(KERNEL, "args.input.size() == 0", "args.limit > 3.0f")
    compiles(work)


def test_an_untouched_skeleton_comes_up_to_date(work: Work) -> None:
    assert work.actions()[KERNEL] == "unchanged"
    work.grow()
    assert work.actions()["include/ops/Twice.hpp"] == "created"
    work.shrink()
    actions = work.actions()
    assert actions["src/ops/Twice.cpp"] == actions["include/ops/Twice.hpp"] == "removed"
    assert not (work.package / "src/ops/Twice.cpp").exists()


def test_edits_of_a_generated_file_away_from_the_new_lines_are_merged(work: Work) -> None:
    work.edit("Makefile", "clean: clean_x86", "mine:\n\t@echo mine\nclean: clean_x86")
    work.grow()
    assert work.actions()["Makefile"] == "merged"
    assert "@echo mine" in work.text("Makefile")
    assert "src/ops/Twice.cpp" in work.text("Makefile")
    compiles(work)
    assert set(work.actions().values()) == {"unchanged", "kept"}


def test_what_no_config_changes_has_no_copy_and_an_edit_of_it_is_noticed(work: Work) -> None:
    """A support file that a newer udogen has changed: no copy is kept for a merge, so both stay."""
    last = work.package / ".udogen/last"
    kept = {path.relative_to(last).as_posix() for path in last.rglob("*") if path.is_file()}
    assert {"Makefile", HEADER} <= kept and not kept & {KERNEL, "config/LeakyRelu.xml", SUPPORT}
    work.edit(SUPPORT, "#pragma once", "#pragma once  // mine")
    assert work.actions()[SUPPORT] == "kept"
    manifest = work.package / ".udogen/manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, "files": {**content["files"], SUPPORT: "an older one"}}))
    done = work.generate()
    assert done.returncode == 2 and f"{SUPPORT}.udogen-new" in done.stderr
    assert "// mine" in work.text(SUPPORT) and "// mine" not in work.text(f"{SUPPORT}.udogen-new")


def test_each_file_is_opened_once_where_nothing_changed(work: Work) -> None:
    """Counted in the child by an audit hook; folders do not count."""
    script = Path(work.out.parent / "opens.py")
    script.write_text(OPENS)
    opens = work.out.parent / "opens.json"
    done = subprocess.run(
        [sys.executable, str(script), str(work.config), str(work.out), str(opens)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    opened = Counter(json.loads(opens.read_text()))
    package = Counter(path.name for path in work.package.rglob("*") if path.is_file())
    assert opened[str(work.config)] == 1 and opened["LeakyRelu.hpp"] == 1
    more = {name: count for name, count in opened.items() if count > (1 if "/" in name else max(package[name], 1))}
    assert not more


def test_edits_of_the_same_lines_conflict_and_both_stay_until_either_is_taken(work: Work) -> None:
    work.edit(HEADER, "  float alpha = 0.01f;\n", "  float alpha = 0.01f;\n  float mine = 1.0f;\n")
    mine = work.text(HEADER)
    work.grow()
    done = work.generate("--json")
    result = json.loads(done.stdout)
    assert (done.returncode, result["ok"], result["error"]["kind"]) == (2, False, "conflict")
    assert HEADER in result["error"]["details"][0]
    assert work.text(HEADER) == mine
    assert "float limit = 6.0f;" in work.text(f"{HEADER}.udogen-new")
    assert (work.package / "src/ops/Twice.cpp").is_file(), "all that does not conflict is written"
    assert f"{HEADER}.udogen-new is still to be merged" in work.generate().stdout
    shutil.move(work.package / f"{HEADER}.udogen-new", work.package / HEADER)
    assert set(work.actions().values()) == {"unchanged"}


def test_a_kernel_that_was_deleted_comes_back(work: Work) -> None:
    (work.package / KERNEL).unlink()
    assert work.actions()[KERNEL] == "created"
    assert "add code here" in work.text(KERNEL)


def test_the_edited_kernel_of_a_removed_op_stays_and_is_reported(work: Work) -> None:
    work.grow()
    assert work.generate().returncode == 0
    work.edit("src/ops/Twice.cpp", "add code here", "my own words")
    work.shrink()
    done = work.generate()
    assert done.returncode == 0
    assert "orphaned" in done.stdout and "src/ops/Twice.cpp" in done.stdout
    assert "my own words" in work.text("src/ops/Twice.cpp")
    assert not (work.package / "include/ops/Twice.hpp").exists()
    compiles(work)
    work.grow()
    assert work.actions()["src/ops/Twice.cpp"] == "kept"
    assert "my own words" in work.text("src/ops/Twice.cpp")


def test_a_folder_with_foreign_files_is_left_alone(tmp_path: Path) -> None:
    work = Work(tmp_path)
    (work.package / "src").mkdir(parents=True)
    (work.package / "Makefile").write_text("mine\n")
    before = work.state()
    done = work.generate()
    assert done.returncode == 2
    assert "Makefile" in done.stderr and "did not generate" in done.stderr
    assert work.state() == before
    (work.package / "Makefile").unlink()
    (work.package / "Makefile").symlink_to("nowhere")
    assert work.generate().returncode == 2
    assert (work.package / "Makefile").is_symlink()


def test_files_that_are_in_nobodys_way_do_not_matter(tmp_path: Path) -> None:
    work = Work(tmp_path)
    work.package.mkdir(parents=True)
    (work.package / "NOTES.txt").write_text("mine\n")
    assert work.generate().returncode == 0
    assert work.text("NOTES.txt") == "mine\n"


def test_a_foreign_file_where_a_new_op_goes_is_not_overwritten(work: Work) -> None:
    (work.package / "include/ops/Twice.hpp").write_text("mine\n")
    (work.package / "src/ops/Twice.cpp").write_text("my kernel\n")
    work.grow()
    done = work.generate()
    assert done.returncode == 2
    assert work.text("include/ops/Twice.hpp") == "mine\n"
    assert work.text("src/ops/Twice.cpp") == "my kernel\n"
    assert "Twice.hpp.udogen-new" in done.stderr


def test_another_package_in_the_folder_is_refused(work: Work) -> None:
    manifest = work.package / ".udogen" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"LeakyReluPackage"', '"OtherPackage"'))
    done = work.generate()
    assert done.returncode == 2
    assert "contains the cpu package OtherPackage" in done.stderr


def test_packages_of_several_backends_in_one_folder(tmp_path: Path) -> None:
    """One after another, in any order, and again: each keeps its folder."""
    names = {"cpu": "LeakyReluPackage", "htp": "LeakyReluPackageHtp", "gpu": "LeakyReluPackageGpu"}
    for backend in ("cpu", "htp", "gpu", "htp", "cpu"):
        done = udogen("generate", FIRST, "--backend", backend, "-o", tmp_path)
        assert done.returncode == 0 and f"{names[backend]}: {backend} package" in done.stdout + done.stderr
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(names.values())


@pytest.mark.parametrize("below", ["file", "file/deeper"])
def test_output_that_is_a_file(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("mine\n")
    done = udogen("generate", FIRST, "-o", tmp_path / below)
    assert done.returncode == 2
    assert f"{tmp_path / 'file'} is a file" in done.stderr
    assert (tmp_path / "file").read_text() == "mine\n"
    done = udogen("generate", FIRST, "-o", tmp_path / ("x" * 300))
    assert done.returncode == 2 and "too long" in done.stderr


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o555)
    out = Path("/proc/self") if os.getuid() == 0 else locked  # root can write to any other folder
    done = udogen("generate", FIRST, "-o", out)
    assert done.returncode == 2, done.stderr
    assert f"cannot write into {out / 'LeakyReluPackage'}: " in done.stderr
    assert list(locked.iterdir()) == []


@pytest.mark.parametrize("option", ["--dry-run", "--diff"])
def test_looking_writes_nothing(work: Work, tmp_path: Path, option: str) -> None:
    work.edit(HEADER, "  float alpha = 0.01f;\n", "  float alpha = 0.01f;\n  float mine = 1.0f;\n")
    work.grow()
    before = work.state()
    done = work.generate(option)
    assert done.returncode == 0, done.stderr
    assert work.state() == before
    assert "Twice" in done.stdout
    fresh = udogen("generate", work.config, "-o", tmp_path / "fresh", option)
    assert fresh.returncode == 0
    assert not (tmp_path / "fresh").exists()


def test_the_diff_can_be_applied(work: Work) -> None:
    work.grow()
    done = work.generate("--diff")
    if shutil.which("patch") is None:
        pytest.skip("patch is not installed")
    applied = subprocess.run(["patch", "-p1"], cwd=work.package, input=done.stdout, capture_output=True, text=True)
    assert applied.returncode == 0, applied.stdout
    assert set(work.actions().values()) == {"unchanged"}


def test_packages_beside_each_other_and_a_linked_folder(work: Work, tmp_path: Path) -> None:
    before = work.state()
    succeeds("generate", ROOT / "examples/softmax/SoftmaxAxis.xml", "-o", work.out)
    assert {path: entry for path, entry in work.state().items() if path in before} == before
    elsewhere = tmp_path / "elsewhere"
    work.package.rename(elsewhere)
    work.package.symlink_to(elsewhere)
    assert set(work.actions().values()) == {"unchanged"}
    work.grow()
    assert work.actions()["src/ops/Twice.cpp"] == "created"
    assert (elsewhere / "src/ops/Twice.cpp").is_file() and work.package.is_symlink()


def test_the_output_depends_on_nothing_but_the_input(work: Work, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    env = {"HOME": str(home), "XDG_CACHE_HOME": "", "TZ": "Asia/Tokyo", "LC_ALL": "C", "USER": "somebody"}
    succeeds("generate", work.config.name, "-o", "other", cwd=tmp_path, env={**env, "PYTHONHASHSEED": "7"})
    own = {path: content for path, (content, _) in work.state().items()}
    root = tmp_path / "other"
    theirs = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert own == theirs


@pytest.mark.parametrize("merges", [False, True])
@pytest.mark.parametrize(
    "files",
    [
        {"../../precious.txt": "{key}"}, {"src/../../../precious.txt": "{key}"}, {"{absolute}": "{key}"},
        {"src": "{key}"}, {".udogen/manifest.json": "{key}"}, {"a\x00b": "{key}"}, {"\ud800": "{key}"},
        {"Makefile": 5}, {"Makefile": None}, {"x" * 5000: "{key}"}, ["Makefile"], "no list", {"": "{key}"},
        {".": "{key}"},
    ],
    ids=ascii,
)  # fmt: skip
def test_a_manifest_that_was_tampered_with_does_no_harm(work: Work, files: object, merges: bool) -> None:
    precious = work.out.parent / "precious.txt"  # a temporary file: it is deleted if the check is missing
    precious.write_text("precious\n")
    if isinstance(files, dict):
        key = content_key(b"precious\n")
        files = {
            path.replace("{absolute}", str(precious)): key if value == "{key}" else value
            for path, value in files.items()
        }
    manifest = work.package / ".udogen" / "manifest.json"
    content = json.loads(manifest.read_text())
    forged = {"files": files} if not merges else {"files": files, "mergeable": list(files)}  # type: ignore[call-overload]
    manifest.write_text(json.dumps({**content, **forged}))
    done = work.generate()
    assert done.returncode in (0, 2), done.stderr
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr
    assert precious.read_text() == "precious\n"
    assert (work.package / "src").is_dir()


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "[" * 100_000, "\x00", '{"files": '])
def test_a_manifest_that_is_broken_is_reported(work: Work, text: str) -> None:
    (work.package / ".udogen" / "manifest.json").write_text(text)
    before = work.state()
    done = work.generate()
    assert done.returncode == 2
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr
    assert work.state() == before


def test_a_finished_kernel_is_not_replaced_by_a_skeleton(work: Work, tmp_path: Path) -> None:
    kernels = Path(shutil.copytree(ONE_KERNEL, tmp_path / "kernels"))
    finished = (kernels / "LeakyRelu.cpp").read_text("utf-8")
    assert work.actions("--kernels", str(kernels))[KERNEL] == "updated", "the untouched skeleton gives way"
    for _ in range(2):
        assert work.actions()[KERNEL] == "kept"
        assert work.text(KERNEL) == finished
    (kernels / "LeakyRelu.cpp").write_text(finished + "// newer\n", "utf-8")
    work.actions("--kernels", str(kernels))
    assert work.text(KERNEL) == finished
    assert work.generate("--kernels", str(tmp_path / "none")).returncode == 2
