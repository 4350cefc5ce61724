"""A plan as a folder: what is pushed, run.py, device.sh, README.txt and the manifest."""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

from udogen import backends, resources
from udogen.backends.plan import PlannedFile
from udogen.clients.programs.parts import dsp_path
from udogen.clients.quoting import shell
from udogen.clients.scripts import tensors
from udogen.clients.scripts.marks import RUN, as_shell, readable
from udogen.clients.scripts.plan import FORMAT, Plan, as_json
from udogen.errors import UsageError, read_plain, writing
from udogen.generate.render import render_file

MANIFEST = "plan.json"
_RUNNABLE = ("run.py", "device.sh")
_NOT_OURS = "choose a folder that is empty, or one that `udogen script` wrote"


def render(plan: Plan, references: tuple[tensors.Tensor, ...] = ()) -> dict[str, bytes | Path]:
    """Every file of the folder, by its path in it."""
    scripts = {
        name: _tidy(render_file(PlannedFile(name, template=f"scripts/{name}.mako", data={"plan": _view(plan)})))
        for name in ("device.sh", "README.txt")
    }
    manifest = json.dumps(as_json(plan), indent=2, ensure_ascii=False) + "\n"
    return {
        **{file.source: file.content for file in plan.files},
        **{f"references/{each.sample}/{each.file}": each.content for each in references},
        **scripts,
        "run.py": (resources.templates() / "scripts" / "run.py.in").read_bytes(),
        MANIFEST: manifest.encode("utf-8", "surrogateescape"),
    }


def _tidy(text: bytes) -> bytes:
    """Without the empty lines that tags of templates leave."""
    return re.sub(rb"\n{3,}", b"\n\n", text).strip(b"\n") + b"\n"


def _view(plan: Plan) -> SimpleNamespace:
    """What templates see: texts that are quoted already, and flags."""
    dsp = backends.ALL[plan.backend].two_halves and plan.system != "pc"
    folders = [*(f"{RUN}/{each}" for each in plan.command.dsp_folders), RUN]
    return SimpleNamespace(
        title=" ".join(plan.title.split()),
        not_local=plan.device != "local",
        label=plan.label,
        archs=" ".join(plan.archs),
        hexagon=bool(plan.archs),
        dsp=dsp,
        dsp_path=as_shell(dsp_path(folders, plan.system)) if dsp else "''",
        words=" ".join(as_shell(word) for word in plan.command.words),
        command=" ".join(shell(readable(word)) if "\ue000" in word else shell(word) for word in plan.command.words),
        pd_session="signed" if plan.signed else "unsigned",
        extensions=plan.command.extensions,
        root=plan.root,
        proves=bool(plan.prove),
        proves_on_dsp=bool(plan.prove) and dsp,
        program=shell(plan.command.words[0].rpartition("/")[2]),
        has_references=bool(plan.checks),
        notes=[" ".join(note.split()) for note in plan.notes],
    )


def write(folder: Path, rendered: Mapping[str, bytes | Path]) -> list[str]:
    """Write what changed, remove what an earlier script left; outputs and files of others stay."""
    old = _earlier(folder)
    written = []
    with writing(folder, hint="choose another folder with -o"):
        for path, content in rendered.items():
            target = folder / path
            runnable = path in _RUNNABLE or path.startswith("bin/")
            if not (target.is_file() and not target.is_symlink() and _is(target, content)):
                target.parent.mkdir(parents=True, exist_ok=True)
                fresh = target.with_name(f".{target.name}.new")
                if isinstance(content, Path):
                    shutil.copyfile(content, fresh)
                else:
                    fresh.write_bytes(content)
                fresh.replace(target)
                written.append(path)
            target.chmod(0o755 if runnable else 0o644)
        for path in sorted(old - rendered.keys()):
            (folder / path).unlink(missing_ok=True)
            _prune((folder / path).parent, folder)
    return written


def _is(file: Path, content: bytes | Path) -> bool:
    if isinstance(content, Path):
        return filecmp.cmp(file, content, shallow=False)
    return file.stat().st_size == len(content) and file.read_bytes() == content


def _earlier(folder: Path) -> set[str]:
    """The files that an earlier script wrote here; an error where the folder is somebody else's."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file, so no folder can be there", hint="choose another folder with -o")
    if not folder.is_dir() or not any(folder.iterdir()):
        return set()
    try:
        found = json.loads(read_plain(folder / MANIFEST).decode("utf-8", "surrogateescape"))
        assert found["udogen_script"] == FORMAT
        sources = {str(row["source"]) for row in found["files"]} | {str(row["reference"]) for row in found["checks"]}
    except (OSError, ValueError, KeyError, TypeError, AssertionError) as fault:
        raise UsageError(f"{folder} holds files that `udogen script` did not write", hint=_NOT_OURS) from fault
    inside = os.path.realpath(folder) + os.sep
    return {each for each in sources if os.path.realpath(folder / each).startswith(inside)}


def _prune(folder: Path, base: Path) -> None:
    while folder != base and folder.is_dir() and not any(folder.iterdir()):
        shutil.rmtree(folder)
        folder = folder.parent
