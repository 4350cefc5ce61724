"""A folder for each DSP version, as Qualcomm's generator has made them since about release 2.20."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import vendor_generators
from tests.command_line import succeeds, udogen
from tests.opdef.texts import udo

FLOAT = "FLOAT_32"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    types = {"per_core_data_types": {"CPU": FLOAT, "GPU": FLOAT, "DSP": "UINT_8"}}
    path = tmp_path / "relu.json"
    path.write_text(
        udo(
            "Pack", type="Relu", inputs=[{"name": "x", **types}], outputs=[{"name": "y", **types}],
            core_types=["CPU", "GPU", "DSP"], dsp_arch_types=["v66", "v68", "v73"],
        )
    )  # fmt: skip
    return path


def folders(path: Path) -> set[str]:
    return {each.name for each in (path / "jni/src").iterdir() if each.name.startswith("DSP")}


def test_one_folder_for_each_version(config: Path, tmp_path: Path) -> None:
    for flags, wanted in (
        ((), {"DSP_V65", "DSP_V68"}),
        (("--force-generation", "--dsp-folders"), {"DSP_V66", "DSP_V68", "DSP_V73"}),
        ((), {"DSP_V66", "DSP_V68", "DSP_V73"}),  # a package that has them keeps them
    ):
        succeeds("generate", config, "-o", tmp_path, *flags)
        assert folders(tmp_path / "Pack") == wanted
    makefile = (tmp_path / "Pack/Makefile").read_text()
    for version in ("v66", "v68", "v73"):
        assert f"dsp_{version}:\n\t@+$(MAKE) --no-print-directory -f jni/src/DSP_{version.upper()}/Makefile" in makefile
    built = udogen("build", "-C", tmp_path / "Pack", "dsp_x86")
    assert not built.returncode, built.stderr


def sdk(root: Path, release: str) -> dict[str, str]:
    """Return QNN_SDK_ROOT of an SDK that has only its version number."""
    header = root / release / "include/QNN/QnnSdkBuildId.h"
    header.parent.mkdir(parents=True)
    header.write_text(f'#define QNN_SDK_BUILD_ID "v{release}.0.240728104910"\n')
    (header.parent / "QnnInterface.h").touch()
    return {"QNN_SDK_ROOT": str(root / release)}


def test_an_sdk_without_qhpi_makes_packages_of_its_own_interface(config: Path, tmp_path: Path) -> None:
    old, new = sdk(tmp_path, "2.25"), sdk(tmp_path, "2.47")
    for env, flags, core, said in (
        (old, (), True, "as SDK 2.25.0.240728104910 in QNN_SDK_ROOT has no QHPI"),
        (new, (), True, ""),  # a package keeps its interface
        (old, ("-f", "--htp-api", "qhpi"), False, ""),
        (old, (), False, ""),
        (new, ("-f",), False, ""),
    ):
        done = succeeds("generate", config, "-o", tmp_path, *flags, env=env)
        assert (tmp_path / "Pack/.sdk/htp/htp_core.mk").exists() == core
        assert said in done.stderr and bool(said) == ("QHPI" in done.stderr)


def test_each_file_is_where_the_vendors_tool_has_it(config: Path, tmp_path: Path) -> None:
    root = vendor_generators.sdk()
    if vendor_generators.SNPE not in vendor_generators.tools(root):
        pytest.skip(f"{root} has no {vendor_generators.SNPE}")
    [made] = vendor_generators.run(root, [(vendor_generators.SNPE, config)])
    assert made.accepted, made.message
    assert not udogen("generate", config, "-o", tmp_path / "out", "--dsp-folders").returncode
    ours = {str(each.relative_to(tmp_path)) for each in (tmp_path / "out").rglob("*") if each.is_file()}
    assert {file for file in made.files if "/config/" not in file} <= ours
