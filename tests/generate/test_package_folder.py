"""A package folder has one writer at a time, nothing is written outside it, and a call that was killed is completed."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.command_line import succeeds, udogen
from tests.generate.test_regenerate import HEADER, KERNEL, Work
from tests.hostile import kill_generate
from tests.making import ONE_OP, ROOT, make_packages
from udogen import UsageError
from udogen.configs.load import load
from udogen.resources import content_key


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("package")
    Work(base)
    make_packages([base / "LeakyRelu.xml"], base / "out")
    return base


@pytest.fixture
def work(package: Path, tmp_path: Path) -> Work:
    shutil.copytree(package, tmp_path, dirs_exist_ok=True)
    return Work(tmp_path)


def generate(work: Work, **options: bool) -> None:
    """Generate in this process; the config has one more op, so that there are files to write."""
    work.grow()
    packages, problems = load([work.config])
    from udogen import GenerateOptions
    from udogen.generate.pipeline import generate as run

    run(packages, GenerateOptions(work.out, **options), problems)  # type: ignore[arg-type]


def tree(folder: Path) -> dict[str, bytes | str]:
    return {
        str(each.relative_to(folder)): str(each.readlink()) if each.is_symlink() else each.read_bytes()
        for each in sorted(folder.rglob("*"))
        if each.is_symlink() or each.is_file()
    }


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("path", ["include", "src/ops", ".udogen", ".udogen/last", ".udogen/last/src", HEADER,
                                  ".udogen/manifest.json", ".udogen/last/Makefile", "Makefile"])  # fmt: skip
def test_a_link_in_a_package_is_refused_before_anything_is_written(work: Work, path: str, dry_run: bool) -> None:
    outside = work.out.parent / "outside"
    (work.package / path).rename(outside)
    (work.package / path).symlink_to(os.path.relpath(outside, (work.package / path).parent))
    before = tree(work.out.parent)
    with pytest.raises(UsageError) as raised:
        generate(work, dry_run=dry_run)
    assert f"{work.package / path} is a link to " in raised.value.message
    assert str(outside.name) in raised.value.message and "may be a link" in raised.value.hint
    after = tree(work.out.parent)
    assert after.pop("LeakyRelu.xml") != before.pop("LeakyRelu.xml")
    assert after == before


@pytest.mark.parametrize("path", ["src/ops/Twice.cpp", ".udogen/unfinished.json", ".udogen/next"])
def test_a_link_that_leads_nowhere_is_not_written_through(work: Work, path: str) -> None:
    (work.package / path).symlink_to(work.out.parent / "nowhere")
    before = tree(work.out)
    with pytest.raises(UsageError, match="is a link to"):
        generate(work)
    assert tree(work.out) == before and not (work.out.parent / "nowhere").exists()


def test_a_kernel_may_be_a_link_and_stays_one(work: Work) -> None:
    mine = work.out.parent / "mine.cpp"
    mine.write_text("// my kernel\n")
    (work.package / KERNEL).unlink()
    (work.package / KERNEL).symlink_to(mine)
    generate(work)
    assert (work.package / KERNEL).is_symlink() and mine.read_text() == "// my kernel\n"
    assert (work.package / "src/ops/Twice.cpp").is_file()


def test_a_forged_manifest_deletes_nothing_outside(work: Work) -> None:
    """A folder that is no longer generated, and is a link to another place."""
    outside = work.out.parent / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text("precious\n")
    (work.package / "gone").symlink_to(outside)
    manifest = work.package / ".udogen/manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(
        json.dumps({**content, "files": {**content["files"], "gone/precious.txt": content_key(b"precious\n")}})
    )
    with pytest.raises(UsageError, match="is a link to"):
        generate(work)
    assert (outside / "precious.txt").exists()


def test_a_file_where_a_folder_has_to_be(work: Work) -> None:
    shutil.rmtree(work.package / "include")
    (work.package / "include").write_text("mine\n")
    before = tree(work.out)
    with pytest.raises(UsageError, match="include is not a folder"):
        generate(work)
    assert tree(work.out) == before


@contextmanager
def locked(folder: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    at = os.open(folder, os.O_RDONLY)
    fcntl.flock(at, how)
    yield
    os.close(at)


def started(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "udogen", *map(str, arguments)], cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.parametrize("how", [fcntl.LOCK_EX, fcntl.LOCK_SH], ids=["writer", "build"])
def test_generate_waits_for_another_and_reports_it(work: Work, how: int) -> None:
    work.grow()
    before = tree(work.out)
    with locked(work.package, how):
        child = started("generate", work.config, "-o", work.out, "--json")
        assert child.stderr is not None
        assert child.stderr.readline() == f"  waiting for another udogen in {work.package}\n"
        assert tree(work.out) == before
    out, _ = child.communicate(timeout=120)
    assert child.returncode == 0 and json.loads(out)["ok"]
    assert (work.package / "src/ops/Twice.cpp").is_file()


def test_build_waits_for_generate_and_reports_it(work: Work) -> None:
    with locked(work.package):
        child = started("build", "-C", work.package, "cpu_x86")
        assert child.stderr is not None
        lines = iter(child.stderr.readline, "")
        assert any(line == f"  waiting for another udogen in {work.package}\n" for line in lines)
        assert not (work.package / "obj").exists()
        child.kill()
    child.communicate(timeout=60)


def test_two_builds_at_once_wait_for_each_other(work: Work) -> None:
    left = work.package / "obj/x86_64-linux-clang/src/LeakyRelu-1f.o.tmp"
    left.parent.mkdir(parents=True)
    left.touch()
    children = [started("build", "-C", work.package, "cpu_x86") for _ in range(3)]
    printed = [child.communicate(timeout=240) for child in children]
    assert [child.returncode for child in children] == [0, 0, 0], printed
    assert sum(" compiled)" in out for out, _ in printed) == 1, printed
    assert sum(f"waiting for another udogen in {work.package}\n" in err for _, err in printed) in (1, 2), (
        printed
    )  # the last may begin late
    assert not left.exists()


def test_one_that_waited_for_a_folder_that_was_moved_aside_takes_the_new_one(work: Work) -> None:
    new = work.out / "new"
    new.mkdir()
    with locked(work.package):
        child = started("generate", work.config, "-o", work.out)
        assert child.stderr is not None and "waiting" in child.stderr.readline()
        work.package.rename(work.out / "LeakyReluPackage.bak-1")
        new.rename(work.package)
    child.communicate(timeout=120)
    assert child.returncode == 0
    assert (work.package / KERNEL).is_file()


def test_folders_that_were_created_for_nothing_go(tmp_path: Path) -> None:
    softmax = ROOT / "examples/softmax/SoftmaxAxis.xml"
    succeeds("generate", ONE_OP, "-o", tmp_path / "a/b", "--dry-run")
    packages, _ = load([softmax])
    taken = tmp_path / "c" / packages[0].name
    taken.mkdir(parents=True)
    (taken / "Makefile").write_text("mine\n")
    done = udogen("generate", ONE_OP, softmax, "-o", tmp_path / "c", "--backend", "cpu")
    assert done.returncode == 2 and "did not generate" in done.stderr
    assert not (tmp_path / "a").exists() and list((tmp_path / "c").iterdir()) == [taken]


def test_one_folder_under_two_names_is_refused(tmp_path: Path) -> None:
    packages, _ = load([ONE_OP, ROOT / "examples/softmax/SoftmaxAxis.xml"])
    first, second = (tmp_path / f"{each.name}{suffix}" for each, suffix in zip(packages, ("", "Cpu"), strict=True))
    first.mkdir()
    second.symlink_to(first)
    done = udogen("generate", ONE_OP, ROOT / "examples/softmax/SoftmaxAxis.xml", "-o", tmp_path)
    assert done.returncode == 2 and "would both go to" in done.stderr
    assert list(first.iterdir()) == []


class Killed(BaseException):
    pass


@pytest.mark.parametrize("first", [True, False], ids=["first", "again"])
def test_interrupted_after_each_step_it_is_completed(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """Stopped before every fourth renaming; then the config changes back, and the tree is right again."""
    right = kill_generate.snapshot(work.package)
    steps, replace = 0, os.replace
    while True:
        place = Work(
            Path(shutil.copytree(work.config.parent, tmp_path / f"at{steps}", ignore=shutil.ignore_patterns("at*")))
        )
        if first:
            shutil.rmtree(place.out)
        else:
            place.edit(HEADER, "#pragma once", "#pragma once\n// mine")
            place.edit(KERNEL, "add code here", "my own words")
        left = [steps]

        def limited(*names: str, left: list[int] = left, **more: int) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            replace(*names, **more)

        monkeypatch.setattr(os, "replace", limited)
        try:
            generate(place)
            ended = True
        except Killed:
            ended = False
        monkeypatch.undo()
        place.shrink()
        make_packages([place.config], place.out)
        found = kill_generate.snapshot(place.package)
        if not first:
            assert "// mine" in place.text(HEADER) and "my own words" in place.text(KERNEL)
            found |= {HEADER: right[HEADER], KERNEL: right[KERNEL]}
        assert found == right, f"stopped at step {steps}"
        shutil.rmtree(place.config.parent)
        if ended:
            break
        steps += 4
    assert steps >= 16


def test_a_package_that_is_not_complete_is_not_built(work: Work) -> None:
    (work.package / ".udogen/unfinished.json").write_text("{}\n")
    done = udogen("build", "-C", work.package, "cpu_x86")
    assert done.returncode == 2
    assert "incomplete" in done.stderr and "generate it again" in done.stderr
    assert set(work.actions().values()) == {"unchanged"}
    assert not (work.package / ".udogen/unfinished.json").exists()


@pytest.mark.parametrize("content", ["[]", '{"files": 5}', '{"files": {"../x": ["a", "b"]}}', '{"files": {"a": 1}}',
                                     '{"files": {"Makefile": ["/none", "x"]}, "manifest": []}'])  # fmt: skip
def test_a_forged_record_of_an_interrupted_call_does_no_harm(work: Work, content: str) -> None:
    right = tree(work.out)
    (work.package / ".udogen/unfinished.json").write_text(content)
    packages, problems = load([work.config])
    make_packages([work.config], work.out)
    assert packages and not problems.errors
    assert tree(work.out) == right


def test_what_was_left_before_anything_was_begun_goes(work: Work) -> None:
    right = tree(work.out)
    (work.package / ".udogen/.udogen-tmp").write_text("{")
    make_packages([work.config], work.out)
    assert tree(work.out) == right


def test_a_copy_that_is_not_what_was_generated_last_is_not_merged_with(work: Work) -> None:
    """With the user's own file as the copy, the user's lines would look like lines that udogen has removed."""
    work.edit(HEADER, "#pragma once", "#pragma once\n// mine")
    (work.package / ".udogen/last" / HEADER).write_text(work.text(HEADER))
    work.grow()
    done = work.generate()
    assert done.returncode == 2 and "1 file changed on both sides" in done.stderr, done.stderr
    assert "// mine" in work.text(HEADER) and "limit" in work.text(f"{HEADER}.udogen-new")
    assert "// mine" not in work.text(f".udogen/last/{HEADER}")
