"""UDO packages for the tests of their layout."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.making import ROOT, make_packages, make_well
from udogen.generate.pipeline import Generated

SOFTMAX = ROOT / "examples" / "softmax" / "Softmax_Htp.json"
KERNELS = ROOT / "examples" / "softmax" / "kernels" / "last_axis"
X86 = "libs/x86-64_linux_clang"


def softmax(out: Path) -> Path:
    """Generate the package of the documentation, with finished kernels."""
    [made] = make_packages([SOFTMAX], out, kernels=KERNELS)
    return made.folder


def registration(path: Path, out: Path, **how: Any) -> Path:
    """Return the registration library of a config, built by the Makefile of its package."""
    [made] = make_packages([path], out, layout="snpe")
    make_well(made.folder, "reg_x86", **how)
    [library] = (made.folder / X86).glob("libUdo*Reg.so")
    return library


def two_families(out: Path) -> Path:
    """Generate a package whose op is for V66 and V68."""
    out.mkdir(parents=True, exist_ok=True)
    [made] = make_packages([config(out, package("Families", op("Twice", "DSP", archs=["v66", "v68"])))], out)
    return made.folder


def config(folder: Path, *packages: dict[str, object]) -> Path:
    """Write a JSON config of these packages."""
    path = folder / "config.json"
    path.write_text(json.dumps({f"UdoPackage_{number}": package for number, package in enumerate(packages)}))
    return path


def package(name: str, *ops: dict[str, object], **more: object) -> dict[str, object]:
    """Return one package of a config."""
    return {"Operators": list(ops), "UDO_PACKAGE_NAME": name, **more}


def op(name: str, *cores: str, archs: Sequence[str] = ()) -> dict[str, object]:
    """Return one op of a config: a tensor in, a tensor out."""
    tensor = {"per_core_data_types": {core: "UINT_8" if core == "DSP" else "FLOAT_32" for core in cores}}
    return {
        "type": name,
        "inputs": [{"name": "x", **tensor}],
        "outputs": [{"name": "y", **tensor}],
        "core_types": list(cores),
        **({"dsp_arch_types": list(archs)} if archs else {}),
    }


def shown(folder: Path) -> set[str]:
    """Return the visible files of a package, without those that a build made."""
    files = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return {
        path.as_posix() for path in files if not path.parts[0].startswith(".") and path.parts[0] not in ("obj", "libs")
    }


def libraries(folder: Path) -> set[str]:
    """Return the libraries that a build made."""
    return {path.relative_to(folder / "libs").as_posix() for path in (folder / "libs").rglob("*.so")}


def by_name(made: Sequence[Generated]) -> dict[str, Path]:
    """Return the folders of generated packages."""
    return {each.plan.package: each.folder for each in made}
