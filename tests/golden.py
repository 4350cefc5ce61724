"""`python -m tests.golden` (`make golden`): rewrites the golden files; review the difference in git.

tests/golden/trees/<config>/<folder>/… is generated from tests/golden/configs/<config>, see `trees`;
tests/golden/build/<compiler>.shown.txt is the explanation of <compiler>.output.txt.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.build.command_lines import write_golden as write_command_lines
from tests.clients.laying import write_golden as write_clients
from tests.docs.golden import write_golden as write_documents
from tests.docs.terminal_picture import write as write_terminal_picture
from tests.doctor.fake import write_golden as write_doctor
from tests.making import CONFIGS, make_packages
from tests.opdef.broken_cases import write_golden as write_broken
from tests.scripts.goldens import write_golden as write_scripts
from tests.verify.report_sample import write_golden as write_report
from tests.verify.toy import write_golden as write_testing
from udogen import PackageLibrary
from udogen.backends.plan import PlannedFile
from udogen.build.make import explain, plan
from udogen.build.tools import Environment
from udogen.generate.pipeline import Generated

TREES = CONFIGS.parent / "trees"
EXPLANATIONS = CONFIGS.parent / "build"


def trees() -> dict[str, bytes]:
    """Return golden files by their path below tests/golden/trees: each generated text once.

    `<config>/<folder>.files.txt` lists the files of the package, and the source of each text: a golden file (`=`;
    `~` if only the names of config, package and ops differ), templates or headers of this repository, or the config
    (`<`).
    """
    found: dict[str, bytes] = {}
    first: dict[bytes, str] = {}
    alike: dict[bytes, str] = {}
    for config in sorted(CONFIGS.iterdir()):
        with tempfile.TemporaryDirectory() as out:
            packages = make_packages([config], Path(out))
            if any(made.plan.part("htp") for made in packages):
                core = Path(out) / "core"  # the same in HTP's C++ style
                packages += make_packages([config], core, chosen=["htp"], htp_api="core")
            for made in packages:
                folder = f"{config.name}/{made.folder.relative_to(out).as_posix()}"
                lines = []
                for file in made.plan.files:
                    if not file.template:
                        lines.append(f"{file.path} < {file.copy or ' + '.join(file.joined) or 'the config'}")
                        continue
                    text = made.rendered[file.path]
                    own = f"{folder}/{file.path}"
                    golden = first.setdefault(text, alike.setdefault(without_names(text, made, config, file), own))
                    if golden == own:
                        found[own] = text
                    sign = "=" if found[golden] == text else "~"
                    lines.append(file.path if golden == own else f"{file.path} {sign} {golden}")
                found[f"{folder}.files.txt"] = ("\n".join(lines) + "\n").encode()
    return found


def without_names(text: bytes, made: Generated, config: Path, file: PlannedFile) -> bytes:
    """Return a generated text with numbers for the names of config, package, and ops, the file's own op first."""
    ops = dict.fromkeys(op for part in made.plan.parts for op in part.ops)
    own = [op for op in ops if op in file.path.rpartition("/")[2]]
    names = [config.name, made.plan.package, *sorted(own, key=len, reverse=True), *ops]
    for number, name in enumerate(dict.fromkeys(names)):
        text = text.replace(name.encode(), b"@%d" % number)
    return f"{file.template}\n".encode() + text


def write_trees() -> None:
    """Write the current generated files to tests/golden/trees."""
    shutil.rmtree(TREES, ignore_errors=True)
    for path, content in trees().items():
        target = TREES / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def explanations() -> dict[str, str]:
    """Return the explanation of tests/golden/build/<compiler>.output.txt, by compiler."""
    package = PackageLibrary(
        path=Path("/PACKAGE"),
        name="Demo",
        backend="cpu",
        layout="qnn",
        libraries="libs",
        library="libDemo.so",
        provider="",
        ops=(),
        configs=(),
        targets=("cpu_x86",),
        user_owned=("src/ops/LeakyRelu.cpp",),
    )
    step = plan(package, (), toolchain="open", env=Environment(x86_cxx="sh"))[0]
    found = {}
    for output in sorted(EXPLANATIONS.glob("*.output.txt")):
        fault = explain(output.read_text("utf-8"), package, step)
        found[output.name.removesuffix(".output.txt")] = "\n".join([fault.message, *fault.details]) + "\n"
    return found


def write_explanations() -> None:
    """Write the current explanations to tests/golden/build/*.shown.txt."""
    for name, text in explanations().items():
        (EXPLANATIONS / f"{name}.shown.txt").write_text(text, "utf-8")


WRITERS = (
    write_trees,
    write_explanations,
    write_command_lines,
    write_documents,
    write_terminal_picture,
    write_broken,
    write_doctor,
    write_clients,
    write_scripts,
    write_report,
    write_testing,
)


def main() -> int:
    """Write all golden files."""
    for write in WRITERS:
        write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
