"""Writes a plan as a folder: the files to push, run.py, device.sh and the manifest."""

from __future__ import annotations

import filecmp
import json
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from udogen import backends, resources
from udogen.backends.plan import PlannedFile
from udogen.clients.device import dsp_path
from udogen.clients.scripts.plan import RUN, ScriptPlan, as_shell
from udogen.clients.scripts.tensors import TensorData
from udogen.errors import UsageError, read_plain, writing

MANIFEST = "plan.json"
_RUNNABLE = ("run.py", "device.sh")
_FOREIGN = "choose an empty folder, or one that `udogen script` wrote"


def render(plan: ScriptPlan, references: Sequence[TensorData] = ()) -> dict[str, bytes | Path]:
    """Path in the folder -> content, for all files of the script."""
    device_sh = PlannedFile("device.sh", template="scripts/device.sh.mako", data=_template_data(plan)).render()
    manifest = json.dumps(plan.as_json(), indent=2, ensure_ascii=False) + "\n"
    return {
        **{file.source: file.content for file in plan.files},
        **{f"references/{each.sample}/{each.file}": each.content for each in references},
        "device.sh": _tidy(device_sh),
        "run.py": _run_py(),
        MANIFEST: manifest.encode("utf-8", "surrogateescape"),
    }


def render_probe(plan: ScriptPlan) -> dict[str, bytes | Path]:
    """The files that `run.py --probe` needs."""
    manifest = json.dumps(replace(plan, files=()).as_json()) + "\n"
    return {"run.py": _run_py(), MANIFEST: manifest.encode("utf-8", "surrogateescape")}


def _run_py() -> bytes:
    return (resources.templates() / "scripts" / "run.py.in").read_bytes()


def _tidy(text: bytes) -> bytes:
    """The text without the empty lines left by tags of templates."""
    return re.sub(rb"\n{3,}", b"\n\n", text).strip(b"\n") + b"\n"


def _template_data(plan: ScriptPlan) -> dict[str, object]:
    """The variables of device.sh: quoted texts, and flags."""
    dsp = backends.ALL[plan.backend].two_halves and plan.system != "pc"
    folders = [*(f"{RUN}/{each}" for each in plan.command.dsp_folders), RUN]
    return {
        "title": " ".join(plan.title.split()),
        "label": plan.label,
        "dsp": dsp,
        "dsp_path": as_shell(dsp_path(folders, plan.system)) if dsp else "''",
        "words": " ".join(as_shell(word) for word in plan.command.words),
        "pd_session": "signed" if plan.signed else "unsigned",
        "extensions": plan.command.extensions,
        "proves": bool(plan.prove),
        "proves_on_dsp": bool(plan.prove) and dsp,
        "program": shlex.quote(plan.command.words[0].rpartition("/")[2]),
        "cases": bool(plan.cases),
    }


def write(folder: Path, rendered: Mapping[str, bytes | Path]) -> list[str]:
    """Write changed files; outputs and other files stay."""
    _check_folder(folder)
    written = []
    with writing(folder, hint="choose another folder with -o"):
        for path, content in rendered.items():
            target = folder / path
            if not (target.is_file() and not target.is_symlink() and _equal(target, content)):
                target.parent.mkdir(parents=True, exist_ok=True)
                fresh = target.with_name(f".{target.name}.new")
                if isinstance(content, Path):
                    shutil.copyfile(content, fresh)
                else:
                    fresh.write_bytes(content)
                fresh.replace(target)
                written.append(path)
            target.chmod(0o755 if path in _RUNNABLE or path.startswith("bin/") else 0o644)
    return written


def _equal(file: Path, content: bytes | Path) -> bool:
    if isinstance(content, Path):
        return filecmp.cmp(file, content, shallow=False)
    return file.stat().st_size == len(content) and file.read_bytes() == content


def _check_folder(folder: Path) -> None:
    """Raise for a folder with files of others."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file, not a folder", hint="choose another folder with -o")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    try:
        if "udogen_script" in json.loads(read_plain(folder / MANIFEST)):
            return
    except (OSError, ValueError, TypeError):
        pass
    raise UsageError(f"{folder} has files that `udogen script` did not write", hint=_FOREIGN)
