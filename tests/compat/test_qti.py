"""`udogen.compat.qti`: which `qti.aisw.op_package_generator` is imported, its behaviour, and programs run with it.

Each case runs in a separate process, some with a small stand-in for the vendor's package.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.making import CORPUS, ROOT

CONFIG = ROOT / "examples" / "leaky_relu" / "LeakyRelu.xml"
OTHER = ROOT / "examples" / "softmax" / "Softmax_Htp.json"
ASK = "from qti.aisw.op_package_generator.generator import QnnOpPackageGenerator as G"


def python(*argv: object, cwd: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a Python that can import udogen, and the modules of another folder."""
    paths = os.pathsep.join(str(each) for each in (path, ROOT) if each)
    command = [sys.executable, *map(str, argv)]
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60)


def printed(code: str, cwd: Path, path: Path | None = None) -> list[str]:
    """Return the lines that a program prints."""
    done = python("-c", code, cwd=cwd, path=path)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def vendor(folder: Path, *, namespace: bool = False, without: str = "") -> Path:
    """Write a stand-in for $QNN_SDK_ROOT/lib/python."""
    for name in ("op_package_generator", "converters"):
        if name != without:
            package = folder / "qti" / "aisw" / name
            package.mkdir(parents=True)
            (package / "__init__.py").touch()
            (package / "generator.py").write_text("class QnnOpPackageGenerator:\n    whose = 'the vendor'\n")
    if not namespace:
        (folder / "qti" / "__init__.py").touch()
        (folder / "qti" / "aisw" / "__init__.py").touch()
    return folder


WHOSE = f"{ASK}; print(getattr(G, 'whose', G.__module__))"
UDOGENS, VENDORS = "udogen.compat.qti", "the vendor"


# --- which one is imported --------------------------------------------------------------------------------


def test_udogens_without_the_vendors(tmp_path: Path) -> None:
    assert printed(f"import udogen.compat.qti as c; c.install(); {WHOSE}", tmp_path) == [UDOGENS]


@pytest.mark.parametrize("namespace", [False, True], ids=["packages", "namespaces"])
def test_the_vendors_wins_wherever_it_is(tmp_path: Path, namespace: bool) -> None:
    path = vendor(tmp_path / "sdk", namespace=namespace)
    install = "import udogen.compat.qti as c; c.install()"
    assert printed(f"{install}; {WHOSE}", tmp_path, path) == [VENDORS]
    # Also at the end of sys.path, and added there after udogen, as ExecuTorch does.
    assert printed(f"{install}; import sys; sys.path.append({str(path)!r}); {WHOSE}", tmp_path) == [VENDORS]


@pytest.mark.parametrize("namespace", [False, True], ids=["packages", "namespaces"])
def test_udogens_where_the_vendors_has_no_generator(tmp_path: Path, namespace: bool) -> None:
    path = vendor(tmp_path / "sdk", namespace=namespace, without="op_package_generator")
    more = "import qti.aisw.converters.generator as g; print(g.QnnOpPackageGenerator.whose)"
    assert printed(f"import udogen.compat.qti as c; c.install(); {WHOSE}; {more}", tmp_path, path) == [UDOGENS, VENDORS]


def test_the_rest_of_an_sdk_that_comes_later_is_found(tmp_path: Path) -> None:
    """ExecuTorch's quantizer adds $QNN_SDK_ROOT/lib/python to sys.path for qti.aisw.converters, but can do without."""
    path = vendor(tmp_path / "sdk")
    code = f"""
import sys, udogen.compat.qti as c
c.install()
{WHOSE}
try:
    import qti.aisw.converters
except ImportError as fault:
    print(fault)
sys.path.insert(0, {str(path)!r})
from qti.aisw.converters.generator import QnnOpPackageGenerator
print(QnnOpPackageGenerator.whose)
"""
    assert printed(code, tmp_path) == [UDOGENS, "No module named 'qti.aisw.converters'", VENDORS]


def test_a_second_call_changes_nothing(tmp_path: Path) -> None:
    code = "import sys, udogen.compat.qti as c; c.install(); first = list(sys.meta_path); c.install(); "
    assert printed(f"{code}print(sys.meta_path == first)", tmp_path) == ["True"]


def test_it_imports_nothing_heavy(tmp_path: Path) -> None:
    code = f"import sys, udogen.compat.qti as c; c.install(); {ASK}; "
    code += "print({'lxml', 'numpy', 'mako', 'click'} & set(sys.modules))"
    assert printed(code, tmp_path) == ["set()"]


# --- its behaviour ----------------------------------------------------------------------------------

BEGIN = "import udogen.compat.qti as c; c.install()\n" + ASK + "\ng = G()\n"


def test_packages_and_ops_of_configs(tmp_path: Path) -> None:
    code = f"""{BEGIN}
g.parse_config([{str(CONFIG)!r}])
print([(each.name, [op.type_name for op in each.operators]) for each in g.package_infos])
g.parse_config([{str(OTHER)!r}])
print([each.name for each in g.package_infos])
print(g.package_infos[0].operators[0].model.params[0].name)
"""
    assert printed(code, tmp_path) == [
        "[('LeakyReluPackage', ['LeakyRelu'])]",
        "['LeakyReluPackage', 'SoftmaxUdoPackage']",
        "alpha",
    ]


def test_unknown_attributes_are_errors_by_name(tmp_path: Path) -> None:
    code = f"""{BEGIN}
g.parse_config([{str(CONFIG)!r}])
for what, name in ((g, "implement_packages"), (g.package_infos[0], "root"), (g.package_infos[0].operators[0], "input")):
    try:
        getattr(what, name)
    except AttributeError as fault:
        print(fault)
try:
    import qti.aisw.op_package_generator.core
except ImportError as fault:
    print(fault)
"""
    rest = (
        "it has what ExecuTorch uses of qti.aisw.op_package_generator; "
        "for more, put $QNN_SDK_ROOT/lib/python on PYTHONPATH, or read `.model`"
    )
    assert printed(code, tmp_path) == [
        f"udogen's generator has no `implement_packages`: {rest}",
        f"udogen's package info has no `root`: {rest}",
        f"udogen's operator has no `input`: {rest}",
        "no module qti.aisw.op_package_generator.core: qti.aisw.op_package_generator is udogen's, which has what "
        "ExecuTorch uses of it; for more, put $QNN_SDK_ROOT/lib/python on PYTHONPATH",
    ]


def test_a_wrong_config_is_one_error_and_keeps_earlier_configs(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.xml"
    wrong.write_text(CONFIG.read_text("utf-8").replace("FLOAT_32", "FLOAT_33").replace("<Rank>ND", "<Rank>XD"), "utf-8")
    code = f"""{BEGIN}
g.parse_config([{str(CONFIG)!r}])
try:
    g.parse_config([{str(wrong)!r}])
except Exception as fault:
    print(fault)
print(len(g.package_infos))
"""
    lines = printed(code, tmp_path)
    assert lines[0].endswith("in the config")
    assert sum(f"{wrong}:" in line for line in lines) >= 4
    assert any("FLOAT_33" in line for line in lines)
    assert lines[-1] == "1"


@pytest.mark.skipif(not CORPUS.is_dir(), reason="../shared/corpus is not beside this checkout")
def test_the_config_of_executorchs_own_example(tmp_path: Path) -> None:
    code = f"{BEGIN}g.parse_config([{str(CORPUS / 'executorch_example_htp.xml')!r}])\n"
    code += "print(g.package_infos[0].name, [op.type_name for op in g.package_infos[0].operators])"
    assert printed(code, tmp_path) == ["ExampleOpPackage ['ExampleCustomOp']"]


# --- unchanged programs --------------------------------------------------------------------

RUN = ("-m", "udogen.compat.qti")
NOTE = "note: qti.aisw.op_package_generator is udogen's\n"


def test_a_program_runs_as_python_would_run_it(tmp_path: Path) -> None:
    folder = tmp_path / "its folder"
    folder.mkdir()
    (folder / "beside.py").write_text("print('beside')\n")
    (folder / "program.py").write_text(
        f"import sys, beside\n{WHOSE}\nprint(__name__, sys.argv, sys.path[0])\nsys.exit(7)\n"
    )
    done = python(*RUN, "its folder/program.py", "--more", "-h", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (7, NOTE)
    argv = ["its folder/program.py", "--more", "-h"]
    assert done.stdout.splitlines() == ["beside", UDOGENS, f"__main__ {argv} {folder}"]


def test_a_module_runs_too(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(f"import sys\n{WHOSE}\nprint(__name__, sys.argv[1:])\n")
    for path, reply, note in ((vendor(tmp_path / "sdk"), VENDORS, ""), (None, UDOGENS, NOTE)):
        done = python(*RUN, "-m", "program", "-m", "x", cwd=tmp_path, path=path)
        assert (done.returncode, done.stderr) == (0, note)
        assert done.stdout.splitlines() == [reply, "__main__ ['-m', 'x']"]


def test_a_wrong_config_ends_a_program_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(f"{ASK}\nG().parse_config(['none.xml'])\n")
    done = python(*RUN, "program.py", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        NOTE + "none.xml: error: the file cannot be read: No such file or directory\n"
        "       = give the path of a config\n"
        "error: 1 error in the config\n"
    )


def test_a_fault_of_the_program_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("raise ValueError('mine')\n")
    done = python(*RUN, "program.py", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.endswith("program.py\", line 1, in <module>\n    raise ValueError('mine')\nValueError: mine\n")


USAGE = "  = python -m udogen.compat.qti SCRIPT.py|-m MODULE [ARGUMENT]...\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "no program is given"),
        (["-m"], "-m needs a module"),
        (["--shadow", "x.py"], "no such option: --shadow"),
        (["none.py"], "none.py does not exist"),
    ],
)
def test_misuse_is_a_sentence(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    done = python(*RUN, *arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"error: {sentence}\n{USAGE}")
