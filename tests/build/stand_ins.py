"""Stand-ins for the vendor's programs and SDK trees, which are not available here: they record how they are called."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

from tests.making import ROOT
from udogen import resources


def script(path: Path, text: str) -> Path:
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def compiler(path: Path, log: Path) -> Path:
    """Write a compiler that appends its command line to a file, one argument a line, and writes its output file."""
    return script(
        path,
        f'{{ echo "== $(basename "$0")"; for each in "$@"; do echo "$each"; done; }} >> \'{log}\'\n'
        'while [ $# -gt 0 ]; do if [ "$1" = -o ]; then echo stand-in > "$2"; fi; shift; done\n',
    )


def qnn_sdk(root: Path) -> Path:
    """Create a tree like that of the QNN SDK, made of udogen's own headers."""
    shutil.copytree(resources.qnn_headers(), root / "include" / "QNN")
    return root


def hexagon_sdk(root: Path, *versions: str, log: Path) -> Path:
    """Create a tree like that of a Hexagon SDK with these versions of the tools."""
    for version in versions:
        compiler(root / "tools/HEXAGON_Tools" / version / "Tools/bin/hexagon-clang++", log)
    return root


def ndk(root: Path, log: Path) -> Path:
    """Create a tree like that of the Android NDK, as far as HTP packages need it."""
    compiler(root / "toolchains/llvm/prebuilt/linux-x86_64/bin/clang++", log)
    return root


_CLEAR = "MODULE SRC_FILES C_INCLUDES CPPFLAGS LDFLAGS LDLIBS".split()


def ndk_build(root: Path, log: Path) -> Path:
    """Create an ndk-build that has GNU make read Android.mk and Application.mk, as the real one does; logs modules."""
    core = root / "build" / "core"
    core.mkdir(parents=True, exist_ok=True)
    (core / "clear.mk").write_text("".join(f"LOCAL_{name} :=\n" for name in _CLEAR))
    reported = "".join(f"  {name}: $(strip $(LOCAL_{name}))\\n" for name in _CLEAR)
    (core / "shared.mk").write_text(
        f"MODULES += $(LOCAL_MODULE)\n"
        f"ifneq ($(filter $(LOCAL_MODULE),$(or $(APP_MODULES),$(LOCAL_MODULE))),)\n"
        f"TOLD := $(shell printf '{reported}' >> '{log}')\n"
        f"MISSING += $(foreach each,$(LOCAL_SRC_FILES),$(if $(wildcard $(LOCAL_PATH)/$(each)),,$(each)))\n"
        f"endif\n"
    )
    (core / "build.mk").write_text(
        "parent = $(patsubst %/,%,$(dir $(1)))\n"
        "my-dir = $(call parent,$(lastword $(MAKEFILE_LIST)))\n"
        f"CLEAR_VARS := {core}/clear.mk\n"
        f"BUILD_SHARED_LIBRARY := {core}/shared.mk\n"
        "MODULES :=\nMISSING :=\n"
        "include $(NDK_APPLICATION_MK)\n"
        "include $(APP_BUILD_SCRIPT)\n"
        "OUT := $(NDK_LIBS_OUT)/$(APP_ABI)\n"
        "WRONG := $(strip $(filter-out $(MODULES),$(APP_MODULES)) $(MISSING))\n"
        "all:\n"
        "\t@test -z '$(WRONG)' || { echo 'there is no $(WRONG)'; exit 1; }\n"
        # Like the real one: it removes older libraries, and adds the C++ library.
        "\t@mkdir -p $(OUT) && rm -f $(OUT)/*.so\n"
        "\t@for each in $(or $(APP_MODULES),$(MODULES)); do echo stand-in > $(OUT)/lib$$each.so; done\n"
        "\t@test $(APP_STL) = c++_shared && echo stand-in > $(OUT)/libc++_shared.so\n"
    )
    script(
        root / "ndk-build",
        f'{{ echo "== ndk-build"; for each in "$@"; do echo "$each"; done; }} >> \'{log}\'\n'
        f"exec make --no-print-directory -s -f '{core}/build.mk' \"$@\"\n",
    )
    return root


def slow(path: Path, started: Path) -> Path:
    """Write a compiler that does not end and appends its process id to a file."""
    return script(path, f"echo $$ >> {shlex.quote(str(started))}\nexec sleep 600\n")


def check_interrupt(arguments: list[str], started: Path, *, count: int, number: signal.Signals, **env: str) -> None:
    """Check that a signal to `udogen build`, which waits for at least `count` slow compilers, ends all of them."""
    child = subprocess.Popen(
        [sys.executable, "-m", "udogen", "build", *arguments],
        env={**os.environ, **env, "PYTHONPATH": str(ROOT)},
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        # A shell that starts the tests with `&` makes them and their children ignore SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while not (started.is_file() and len(started.read_text().split()) >= count) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(started.read_text().split()) >= count, "as many compilers at once"
    child.send_signal(number)
    _, err = child.communicate(timeout=30)
    ends = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}
    assert child.returncode == ends[number] and "Traceback" not in err, err
    deadline = time.monotonic() + 10
    for pid in map(int, started.read_text().split()):
        while is_alive(pid):
            assert time.monotonic() < deadline, f"compiler {pid} lives on"
            time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Return whether a process is running."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
