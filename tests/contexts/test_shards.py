"""The context binaries of a folder or a command line: order, pairs, gaps, orphans."""

from __future__ import annotations

from pathlib import Path

import pytest

from udogen import UsageError
from udogen.runtime.contexts.binaries import find_shards


def fill(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).write_text("x")
    return folder


def names(*paths: Path) -> list[tuple[str, str | None]]:
    found = find_shards(paths)
    assert [shard.number for shard in found.shards] == [*range(len(found.shards))]
    return [(shard.binary.name, shard.json.name if shard.json else None) for shard in found.shards]


ORDERS = {  # files of a folder -> in which order they are taken: binary, JSON
    "pairs in the order of their numbers": (
        [f"forward_{i}{end}" for i in range(12) for end in (".bin", "_json.json")],
        [(f"forward_{i}.bin", f"forward_{i}_json.json") for i in range(12)],
    ),
    "one without a description": (
        ["forward_0.bin", "forward_1.bin", "forward_1_json.json"],
        [("forward_0.bin", None), ("forward_1.bin", "forward_1_json.json")],
    ),
    "other names in a natural order": (
        ["part_10.bin", "part_2.bin", "part_2.json", "embed.bin", "part_2.bin.udogen.json"],
        [("embed.bin", None), ("part_2.bin", "part_2.json"), ("part_10.bin", None)],
    ),
}


@pytest.mark.parametrize("what", ORDERS)
def test_the_order_of_shards(what: str, tmp_path: Path, tidy: None) -> None:
    files, expected = ORDERS[what]
    assert names(fill(tmp_path, *files)) == expected
    assert find_shards([tmp_path]).notes == ()


def test_gaps_orphans_and_others_are_named(tmp_path: Path) -> None:
    fill(tmp_path, "forward_1.bin", "forward_4.bin", "forward_6_json.json", "model.bin", "notes.txt")
    found = find_shards([tmp_path])
    assert [shard.name for shard in found.shards] == ["forward_1", "forward_4"]
    assert found.notes == (
        f"{tmp_path}: forward_0.bin, forward_2.bin and forward_3.bin are missing before forward_4.bin",
        f"{tmp_path}/forward_6_json.json describes forward_6.bin, which is not there",
        f"{tmp_path}/model.bin is left out: beside forward_<i>.bin other names are not shards",
    )


def test_one_gap(tmp_path: Path) -> None:
    fill(tmp_path, "forward_0.bin", "forward_2.bin")
    assert find_shards([tmp_path]).notes == (f"{tmp_path}: forward_1.bin is missing before forward_2.bin",)


def test_files_as_they_are_given(tmp_path: Path) -> None:
    fill(tmp_path, "forward_1.bin", "forward_0.bin", "forward_0_json.json", "x.bin")
    given = [tmp_path / name for name in ("x.bin", "forward_1.bin", "forward_0.bin")]
    assert names(*given) == [
        ("x.bin", None),
        ("forward_1.bin", None),
        ("forward_0.bin", "forward_0_json.json"),
    ]


def refused(*paths: Path) -> UsageError:
    with pytest.raises(UsageError) as caught:
        find_shards(paths)
    assert caught.value.exit_code == 2
    assert caught.value.hint == "give a folder of forward_<i>.bin and forward_<i>_json.json, or files *.bin"
    return caught.value


def test_faults(tmp_path: Path, tidy: None) -> None:
    assert refused(tmp_path / "none").message == f"there is no file or folder {tmp_path}/none"
    assert refused(tmp_path).message == f"{tmp_path} contains no context binary (*.bin)"
    fill(tmp_path, "forward_0_json.json")
    assert refused(tmp_path).message == f"{tmp_path} has forward_0_json.json, but no forward_<i>.bin"
    fill(tmp_path, "forward_0.bin", "forward_00.bin")
    assert refused(tmp_path).message == f"forward_0.bin and forward_00.bin in {tmp_path} have one number"
    (tmp_path / "forward_00.bin").unlink()
    (tmp_path / "forward_1.bin").mkdir()
    (tmp_path / "forward_2.bin").symlink_to("nowhere")
    error = refused(tmp_path, tmp_path / "none")
    assert error.message == "3 things are wrong with the context binaries"
    assert error.details == (
        f"{tmp_path}/forward_1.bin is not a file",
        f"{tmp_path}/forward_2.bin is a link to nothing",
        f"there is no file or folder {tmp_path}/none",
    )


def test_a_file_given_twice(tmp_path: Path) -> None:
    fill(tmp_path, "a.bin")
    (tmp_path / "b.bin").symlink_to("a.bin")
    assert refused(tmp_path / "a.bin", tmp_path / "b.bin").message == f"{tmp_path}/b.bin is given twice"
