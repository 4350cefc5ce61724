"""A stand-in for a program of the vendor: `vendor_tool.py PROGRAM ARGUMENT…`.

It accepts only the options of the program's documentation, requires every file that is named, finds libraries
like the loaders do, and writes the output of LeakyRelu in place of the program's, computed by numpy.  Its arguments
are recorded in OUTPUT/called.json.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

# Source: QNN SDK 2.25 (docs/QNN/general/tools.html, docs/SNPE/html/general/tools_execution.html): option -> whether a
# value follows.
FLAGS = {
    "qnn-net-run": {
        **dict.fromkeys(["--model", "--backend", "--input_list", "--retrieve_context", "--output_dir"], True),
        **dict.fromkeys(["--op_packages", "--config_file", "--log_level"], True),
        **dict.fromkeys(["--use_native_output_files", "--use_native_input_files"], False),
    },
    "snpe-net-run": {
        **dict.fromkeys(["--container", "--input_list", "--output_dir", "--udo_package_path"], True),
        **dict.fromkeys(["--platform_options"], True),
        **dict.fromkeys(["--use_dsp", "--use_gpu"], False),
    },
}


def fail(text: str) -> None:
    sys.exit(f"{sys.argv[1]}: {text}")


def read(program: str, words: list[str]) -> dict[str, Any]:
    """Return the options, or exit."""
    found: dict[str, Any] = {}
    rest = list(words)
    while rest:
        name = rest.pop(0)
        if name not in FLAGS[program]:
            fail(f"unknown option {name}")
        if name in found:
            fail(f"{name} is given twice")
        found[name] = (rest.pop(0) if rest else "") if FLAGS[program][name] else True
    return found


def need(path: str) -> Path:
    """Return a file, or exit if it is missing."""
    if not Path(path).is_file():
        fail(f"no such file: {path}")
    return Path(path)


def loaded(name: str, variable: str = "LD_LIBRARY_PATH", separator: str = ":") -> Path:
    """Return a library that a loader would find."""
    if "/" in name:
        return need(name)
    for folder in os.environ.get(variable, "").split(separator):
        if folder and Path(folder, name).is_file():
            return Path(folder, name)
    fail(f"{name} is not in {variable} ({os.environ.get(variable, '')})")
    raise AssertionError


def check_packages(text: str) -> None:
    """Find each library of `path:provider[:target],…` as its loader does, or exit."""
    for entry in text.split(","):
        fields = entry.split(":")
        if len(fields) not in (2, 3):
            fail(f"Malformed opPackageString provided: {entry}")
        on_dsp = fields[2:] == ["HTP"] and "/" not in fields[0]
        loaded(fields[0], *(("ADSP_LIBRARY_PATH", ";") if on_dsp else ()))


def leaky(content: bytes) -> bytes:
    values = np.frombuffer(content, "<f4")
    return np.where(values > 0, values, np.float32(0.5) * values).astype("<f4").tobytes()


def listed(path: str) -> bytes:
    """Return the first input of an input list of one line; names are left out."""
    files = [need(entry.rpartition(":=")[2]) for entry in need(path).read_text().rstrip("\n").split(" ")]
    return files[0].read_bytes()


def record(out: Path, options: dict[str, Any]) -> None:
    """Record the arguments, and the content of the folder."""
    out.mkdir(parents=True, exist_ok=True)
    config = options.get("--config_file")
    shown = {
        "arguments": sys.argv[2:],
        "LD_LIBRARY_PATH": os.environ["LD_LIBRARY_PATH"],
        "ADSP_LIBRARY_PATH": os.environ.get("ADSP_LIBRARY_PATH", ""),
        "files": sorted(str(path) for path in Path().rglob("*") if path.is_symlink()),
        "config": json.loads(need(config).read_text()) if config else None,
    }
    if shown["config"]:
        extensions = shown["config"]["backend_extensions"]
        loaded(extensions["shared_library_path"])
        shown["backend"] = json.loads(need(extensions["config_file_path"]).read_text())
    (out / "called.json").write_text(json.dumps(shown, indent=2))


def main() -> None:
    program, words = sys.argv[1], sys.argv[2:]
    options = read(program, words)
    name = "output.raw"
    if program == "qnn-net-run":
        loaded(options["--backend"])
        need(options.get("--model") or options["--retrieve_context"])
        check_packages(options["--op_packages"])
        name = "output_native.raw" if "--use_native_output_files" in options else name
    else:
        need(options["--container"])
        registration = options["--udo_package_path"]
        if not registration.startswith("/"):
            fail("--udo_package_path is not absolute")
        need(registration)
        loaded("libSNPE.so")
        if "--use_dsp" in options:
            loaded(Path(registration).name.replace("Reg.so", "ImplDsp.so"), "ADSP_LIBRARY_PATH", ";")
    out = Path(options["--output_dir"])
    record(out, options)
    (out / "Result_0").mkdir()
    (out / "Result_0" / name).write_bytes(leaky(listed(options["--input_list"])))
    print(f"{program}: done")


main()
