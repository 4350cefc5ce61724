#!/usr/bin/env python3
"""Runs what plan.json in this folder says, as run.sh does: `run.py --help`, and README.txt.

Written by `udogen script`.  Python 3.8 or later, its standard library alone.
"""

import argparse
import hashlib
import importlib.util
import json
import math
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
_ON_DEVICE = (
    "/vendor/lib64 /system/lib64 /system_ext/lib64 /usr/lib /usr/lib64 /usr/lib/aarch64-linux-gnu /usr/local/lib "
    "/vendor/lib/rfsa/adsp /usr/lib/rfsa/adsp /vendor/dsp/cdsp /usr/lib/dsp /dsp"
)
_NOWHERE = {
    True: (
        "not on this machine",
        "or put the Python first on PATH that has onnxruntime-qnn (2.3.0 has libQnnCpu.so)",
    ),
    False: (
        "neither here nor on the device",
        "or, where the device has them, set UDOGEN_DEVICE_DIR to its folder there",
    ),
}
_CODES = {
    "float16": "e",
    "float32": "f",
    "float64": "d",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
}


class Failed(Exception):
    """An end with a sentence, hints, and an exit code."""

    def __init__(self, code, text, *hints):
        super().__init__(text)
        self.code, self.text, self.hints = code, text, hints


def say(text):
    """A line for the person who watches."""
    print(text, file=sys.stderr, flush=True)


def said_by(done):
    """What a program said, in one line."""
    lines = (done.stdout + done.stderr).decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip() if lines else "nothing was said"


# --- devices ---------------------------------------------------------------------------------------------------


class Local:
    """This machine."""

    def shell(self, command):
        return ["sh", "-c", command]

    def run(self, argv, **more):
        return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def pull(self, source, target):
        return self.run(["cp", "-R", source + "/.", target])

    def reach(self):
        pass

    def start_log(self, out):
        pass

    def stop_log(self, out):
        pass


class Adb(Local):
    """A device behind adb."""

    def __init__(self, serial):
        self.serial = serial
        self.argv = ["adb", *(["-s", serial] if serial else [])]
        self.logger = None

    def shell(self, command):
        return [*self.argv, "shell", command]

    def push(self, source, target):
        return self.run([*self.argv, "push", source, target])

    def pull(self, source, target):
        done = self.run([*self.argv, "pull", source, target])
        inner = os.path.join(target, os.path.basename(source))  # adb puts the folder itself into ours
        if os.path.isdir(inner):
            for name in os.listdir(inner):
                shutil.move(os.path.join(inner, name), target)
            os.rmdir(inner)
        return done

    def reach(self):
        if not shutil.which("adb"):
            raise Failed(3, "adb is not on PATH", "install Android's platform tools, or add them to PATH")
        said = said_by(self.run([*self.argv, "get-state"]))
        rows = (
            ("unauthorized", "the device does not trust this machine: adb says `unauthorized`",
             "unlock its screen and allow USB debugging"),
            ("more than one", "there are several devices",
             "choose one of `adb devices` with --serial, or ANDROID_SERIAL"),
            ("offline", "the device is offline", "plug it in again, or `adb reconnect`"),
            ("no devices", "adb finds no device%s" % (self.serial and " " + self.serial),
             "plug it in, and allow USB debugging; `adb devices` lists what is there"),
            ("not found", "adb finds no device%s" % (self.serial and " " + self.serial),
             "plug it in, and allow USB debugging; `adb devices` lists what is there"),
            ("no permissions", "this machine may not use the device: %s" % said,
             "add a udev rule for it, or restart adb as root: adb kill-server"),
            ("insufficient permissions", "this machine may not use the device: %s" % said,
             "add a udev rule for it, or restart adb as root: adb kill-server"),
        )  # fmt: skip
        for word, text, hint in rows:
            if word in said:
                raise Failed(5, text, hint)
        if "device" not in said:
            raise Failed(5, "adb does not reach the device: %s" % said, "see `adb devices`")

    def start_log(self, out):
        with open(os.path.join(out, "logcat.txt"), "wb") as stream:
            argv = [*self.argv, "logcat", "-v", "threadtime", "-T", "1"]
            self.logger = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)

    def stop_log(self, out):
        if self.logger:
            self.logger.kill()
            self.logger.wait()
            self.logger = None
            say("the device's log is in %s" % os.path.join(out, "logcat.txt"))


class Ssh(Local):
    """A device behind ssh."""

    def __init__(self, host, port):
        self.host = host
        self.argv = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", *(["-p", port] if port else []), host]

    def shell(self, command):
        return [*self.argv, "sh -c " + shlex.quote(command)]

    def push(self, source, target):
        with open(source, "rb") as stream:
            argv = self.shell("cat >" + shlex.quote(target))
            return subprocess.run(argv, stdin=stream, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def pull(self, source, target):
        argv = self.shell("cd %s && tar -cf - ." % shlex.quote(source))
        sender = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        done = subprocess.run(
            ["tar", "-xf", "-", "-C", target], stdin=sender.stdout, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        sender.stdout.close()
        done.returncode = sender.wait() or done.returncode
        return done

    def reach(self):
        if not shutil.which("ssh"):
            raise Failed(3, "ssh is not on PATH", "install an ssh client")
        if not self.host:
            raise Failed(2, "which host is not said", "--host USER@HOST, or UDOGEN_HOST")
        if self.host.startswith("-"):
            raise Failed(2, "--host %s: this is no host" % self.host, "--host USER@HOST")
        done = self.run(self.shell("true"))
        if done.returncode:
            raise Failed(
                5,
                "ssh does not reach %s: %s" % (self.host, said_by(done)),
                "it must work without a password: try `ssh -o BatchMode=yes %s true`" % self.host,
            )

    def stop_log(self, out):
        done = self.run(self.shell("journalctl -k -n 300 --no-pager 2>/dev/null || dmesg | tail -n 300"))
        with open(os.path.join(out, "kernel.txt"), "wb") as stream:
            stream.write(done.stdout + done.stderr)
        if done.returncode:
            say("note: the log of the device's kernel may not be read: %s" % said_by(done))
        else:
            say("the last 300 lines of the device's kernel are in %s" % os.path.join(out, "kernel.txt"))


# --- one run ---------------------------------------------------------------------------------------------------


class Run:
    """The steps of a run, in their order."""

    def __init__(self, plan, wishes, device):
        self.plan, self.wishes, self.device = plan, wishes, device
        self.home = os.path.join(wishes.remote, plan["name"])
        self.local = plan["device"] == "local"
        self.arch, self.vendor = wishes.arch, []
        self.folder = self.script = None
        self.scratch = tempfile.mkdtemp()

    def ask(self, command):
        """The answer of a short command on the device; old adbs do not tell the exit code."""
        done = self.device.run(self.device.shell("( %s ) 2>&1; echo udogen:$?" % command))
        said = done.stdout.decode("utf-8", "replace").replace("\r", "")
        answer, mark, code = said.rpartition("udogen:")
        if not mark:
            raise Failed(5, "the device did not answer: %s" % said_by(done), "is it still there?")
        if code.strip() != "0":
            last = (answer.strip().splitlines() or [""])[-1]
            raise Failed(5, "the device refused: %s" % last, "it was: %s" % command)
        return answer

    def check_place(self):
        """Refuse folders and machines that cannot work."""
        odd = "".join(char for char in self.home if char in self.plan["forbidden"])
        if odd:
            text = "the folder %s contains `%s`, which separates things for %s and its loaders"
            raise Failed(2, text % (self.home, odd, self.plan["client"]), "move it with --remote (UDOGEN_REMOTE)")
        self.device.reach()

    def check_machine(self):
        machine = (self.ask("uname -m").strip().splitlines() or [""])[-1]
        machine = "aarch64" if machine == "arm64" or machine.startswith("armv8") else machine
        if machine != self.plan["machine"]:
            raise Failed(
                5,
                "this is for %s, and the device is %s" % (self.plan["machine"], machine),
                "write the script for it: udogen script --device, --target",
            )

    def find_arch(self):
        """The version of Hexagon: what is said, or what the device tells."""
        archs = self.plan["archs"]
        if not archs:
            return
        if not self.arch:
            answer = self.ask(
                "getprop ro.soc.model; getprop ro.board.platform; "
                "cat /sys/devices/soc0/machine /sys/devices/soc0/soc_id; true"
            )
            lines = [re.sub("-.*", "", line.upper().replace(" ", "")) for line in answer.splitlines()]
            told = [line for line in lines if line and ":" not in line]
            self.arch = next((self.plan["socs"][each] for each in told if each in self.plan["socs"]), "")
            if not self.arch:
                raise Failed(
                    5,
                    "the version of Hexagon is not known: the device tells %s" % " ".join([*told, ""]),
                    "say it with --arch, or UDOGEN_HTP_ARCH: %s" % " ".join(archs),
                )
        if self.arch not in archs:
            raise Failed(
                5,
                "the device has Hexagon %s, and this script has libraries for %s" % (self.arch, " ".join(archs)),
                "udogen build htp_%s, and write the script again" % self.arch,
            )
        say("Hexagon %s" % self.arch)

    def mine(self, row):
        return row["arch"] in ("", self.arch)

    def find_vendor(self):
        """(path, row) of what is here of the vendor's; what is not must be on the device."""
        variable = self.plan["root"]
        root = os.environ.get(variable) or os.environ.get("QNN_SDK_ROOT", "")
        said = [each for each in os.environ.get("UDOGEN_VENDOR_DIR", "").split(":") if each]
        wheel = _wheel() if self.local else []
        found, wanted = [], []
        for row in filter(self.mine, self.plan["vendors"]):
            places = [*said, *(os.path.join(root, each) for each in row["folders"] if root), *wheel]
            here = [os.path.join(place, row["name"]) for place in places]
            path = next((each for each in here if os.path.isfile(each)), None)
            if path:
                found.append((path, row))
            else:
                wanted.append(row)
        if not wanted:
            return found
        on_device = os.environ.get("UDOGEN_DEVICE_DIR", "")
        names = " ".join(shlex.quote(row["name"]) for row in wanted)
        there = self.ask(
            "d=%s; IFS=:; for f in %s; do for p in $d $PATH $LD_LIBRARY_PATH %s; "
            'do [ -f "$p/$f" ] && echo "there:$f" && break; done; done; true'
            % (shlex.quote(on_device), names, _ON_DEVICE)
        ).splitlines()
        needed = [row["name"] for row in wanted if row["needed"] or row["program"]]
        missing = [name for name in needed if "there:" + name not in there]
        if missing:
            raise Failed(
                3,
                "the vendor's %s: %s" % (" ".join(missing), _NOWHERE[self.local][0]),
                "set %s to the SDK%s, or UDOGEN_VENDOR_DIR to a folder that has them"
                % (variable, " (it is %s)" % root if root else ""),
                _NOWHERE[self.local][1],
            )
        self.vendor = [each for each in on_device.split(":") if each]
        return found

    def push(self, vendor):
        """Everything that the device lacks, and the names that it has in the folder of the run."""
        cache, runs = self.home + "/cache", self.home + "/runs"
        answer = self.ask(
            "umask 022; mkdir -p %s %s && cd %s && [ -w . ] && n=1 && while ! mkdir $n 2>/dev/null; do n=$((n + 1)); "
            "[ $n -lt 99999 ] || exit 1; done; echo $n" % tuple(map(shlex.quote, (cache, runs, runs)))
        )
        self.folder = runs + "/" + answer.strip().splitlines()[-1]
        links, rows = [], []
        for row in filter(self.mine, self.plan["files"]):
            rows.append((os.path.join(HERE, row["source"]), row["name"], row["key"], row["program"]))
        if self.local:
            links = [(source, name) for source, name, _, _ in rows]
            self.vendor = [*(os.path.dirname(path) for path, _ in vendor), *self.vendor]
            self.script = os.path.join(HERE, "device.sh")
            self._write_links(links, os.path.join(self.folder, "links"))
            return
        rows += [(path, row["name"], _sum(path), row["program"]) for path, row in vendor]
        have = set(self.ask("cd %s && ls" % shlex.quote(cache)).splitlines())
        fresh, pushed, kept = self.folder + "/fresh", 0, 0
        for source, name, key, program in rows:
            links.append((cache + "/" + key, name))
            if key in have:
                kept += 1
                continue
            size = os.path.getsize(source)
            say("push %s (%d bytes)" % (os.path.basename(source), size))
            self._send(source, fresh, "is the device full? run.py --clean removes what was pushed")
            # Whole or not at all, also where two runs push the same.
            self.ask(
                "[ $(wc -c <%s) -eq %d ] || { echo it arrived incomplete; exit 1; }; chmod %s %s && mv -f %s %s"
                % (
                    shlex.quote(fresh),
                    size,
                    "755" if program else "644",
                    shlex.quote(fresh),
                    shlex.quote(fresh),
                    shlex.quote(cache + "/" + key),
                )
            )
            have.add(key)
            pushed += 1
        say("%d files pushed, %d were there" % (pushed, kept))
        listed = os.path.join(self.scratch, "links")
        self._write_links(links, listed)
        self.script = self.folder + "/device.sh"
        self._send(os.path.join(HERE, "device.sh"), self.script)
        self._send(listed, self.folder + "/links")

    def _write_links(self, links, path):
        with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="\n") as stream:
            stream.writelines("%s\n%s\n" % pair for pair in links)

    def _send(self, source, target, *hints):
        done = self.device.push(source, target)
        if done.returncode:
            raise Failed(5, "%s was not pushed: %s" % (source, said_by(done)), *hints)

    def execute(self, out):
        """Run the client, bring back what it wrote; the devices it ran on."""
        words = [self.script, "start", self.folder, self.arch or "-", str(self.wishes.devices)]
        words += [":".join(self.vendor), self.wishes.wrap]
        if self.wishes.logcat:
            self.device.start_log(out)
        try:
            argv = self.device.shell("sh " + " ".join(map(shlex.quote, words)))
            # A group of its own: an interrupt is passed on in order, not to everybody at once.
            running = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
            )
            with running, open(os.path.join(out, "log.txt"), "wb") as log:
                try:
                    for line in running.stdout:
                        log.write(line)
                        sys.stdout.buffer.write(line)
                        sys.stdout.flush()
                except KeyboardInterrupt:
                    say("interrupted: the client is stopped")
                    self.device.run(self.device.shell("sh %s stop %s" % tuple(map(shlex.quote, (self.script, self.folder)))))
                    raise
        finally:
            if self.wishes.logcat:
                self.device.stop_log(out)
        status = self.ask("cat %s 2>/dev/null; true" % shlex.quote(self.folder + "/out/status")).split("\n")
        status = [line.split() for line in status if line.strip()]
        done = self.device.pull(self.folder + "/out", out)
        if done.returncode:
            say("note: no outputs came back: %s" % said_by(done))
        say("outputs are in %s" % out)
        log = os.path.join(out, "log.txt")
        if len(status) != self.wishes.devices:
            raise Failed(5, "the client did not run to its end", "udogen explain %s" % log)
        for where, code in status:
            if code != "0":
                raise Failed(5, "%s ended with %s on %s" % (self.plan["client"], code, where), "udogen explain %s" % log)
        return [where for where, _ in status]

    def finish(self):
        """Leave nothing behind."""
        if self.folder and not self.wishes.keep:
            self.device.run(self.device.shell("rm -rf " + shlex.quote(self.folder)))
        shutil.rmtree(self.scratch, ignore_errors=True)


def _wheel():
    found = importlib.util.find_spec("onnxruntime_qnn")
    return list(found.submodule_search_locations or []) if found else []


def _sum(path):
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()[:32]


# --- is it right -----------------------------------------------------------------------------------------------


def proved(plan, out, where):
    """Whether the packages' own kernels ran, said for each op."""
    told = ""
    # Lines `PACKAGE OP COUNT WHAT`; what Hexagon counts is in the log of the device.
    for name in (os.path.join(where, "executions.txt"), "logcat.txt"):
        if os.path.isfile(os.path.join(out, name)):
            with open(os.path.join(out, name), encoding="utf-8", errors="replace") as stream:
                told += stream.read()
    good = True
    for package, op in plan["prove"]:
        row = r"(?<!\S)%s %s (\d+) (?:executions|calls|nodes)\b" % (re.escape(package), re.escape(op))
        count = sum(map(int, re.findall(row, told)))
        if count:
            print("%s: %s::%s ran in our kernel, %d times" % (where, package, op, count))
        else:
            good = False
            print("%s: %s::%s did not run in our kernel" % (where, package, op))
    return good


def compare(check, out, where):
    """Whether one output is as its reference, said in a line."""
    path = os.path.join(out, where, check["output"])
    if not os.path.isfile(path):  # some write tensors of their own type under another name
        path = re.sub(r"\.raw$", "_native.raw", path)
    what = "%s sample %d %s" % (where, check["sample"], check["name"])
    if not os.path.isfile(path):
        print("%s: there is no %s" % (what, check["output"]))
        return False
    with open(path, "rb") as stream, open(os.path.join(HERE, check["reference"]), "rb") as other:
        found, wanted = stream.read(), other.read()
    if len(found) != len(wanted):
        print("%s: %d bytes, the reference (%s) has %d" % (what, len(found), check["dtype"], len(wanted)))
        return False
    code = "<" + _CODES[check["dtype"]]
    bad, worst, first, count = 0, 0, None, 0
    for (x,), (y,) in zip(struct.iter_unpack(code, found), struct.iter_unpack(code, wanted)):
        count += 1
        if x == y or (x != x and y != y):
            continue
        distance = abs(x - y)
        if math.isfinite(distance):
            worst = max(worst, distance)
            if distance <= check["absolute"] + check["relative"] * abs(y):
                continue
        bad += 1
        first = first or (count - 1, x, y)
    if not bad:
        print("%s: right, %d values, the largest difference is %.3g" % (what, count, worst))
        return True
    text = "%s: wrong, %d of %d values, the first is %d: %.6g instead of %.6g; the largest difference is %.3g"
    print(text % (what, bad, count, *first, worst))
    return False


# --- the command line --------------------------------------------------------------------------------------------


def read_arguments(plan):
    """What is asked for."""
    env = os.environ.get
    parser = argparse.ArgumentParser(description=plan["title"])
    device = plan["device"]
    if device == "adb":
        parser.add_argument("--serial", default=env("ANDROID_SERIAL", ""), help="the device, where there are several")
    if device == "ssh":
        parser.add_argument("--host", default=env("UDOGEN_HOST", ""), help="user@host, or a name of ssh's config")
        parser.add_argument("--port", default=env("UDOGEN_PORT", ""))
    default = env("UDOGEN_REMOTE") or plan["remote"] or os.path.join(HERE, ".run")
    parser.add_argument("--remote", default=default, help="where things go on the device (UDOGEN_REMOTE)")
    parser.add_argument("--arch", default=env("UDOGEN_HTP_ARCH", ""), help="the version of Hexagon: v73 …")
    devices = env("UDOGEN_NDEV") or str(plan["devices"])
    parser.add_argument("--devices", default=devices, metavar="N", help="run on HTP0 … at once (UDOGEN_NDEV)")
    parser.add_argument("--out", default="", help="where outputs go (a new folder of outputs/)")
    parser.add_argument("--logcat", action="store_true", default=plan["logcat"], help="keep the device's log")
    parser.add_argument("--wrap", default=env("UDOGEN_WRAP", ""), help="what the client is run with: `taskset f0`")
    parser.add_argument("--keep", action="store_true", help="leave the folder of the run on the device")
    parser.add_argument("--clean", action="store_true", help="remove everything of this script from the device")
    wishes = parser.parse_args()
    if not re.fullmatch("[1-9][0-9]?", wishes.devices):
        raise Failed(2, "--devices %s: this is no number" % wishes.devices, "as in --devices 2")
    wishes.devices = int(wishes.devices)
    if wishes.devices > 1 and plan["devices_refused"]:
        raise Failed(
            2, "%s runs on one device: %s" % (plan["client"], plan["devices_refused"]), "leave --devices out"
        )
    if not wishes.remote.startswith("/"):
        raise Failed(2, "%s is not an absolute path" % wishes.remote, "--remote /data/local/tmp/udogen")
    return wishes


def new_folder(wishes):
    """An empty folder for the outputs of this run."""
    if wishes.out:
        if os.path.isdir(wishes.out) and os.listdir(wishes.out):
            raise Failed(2, "%s is not empty" % wishes.out, "choose another folder with --out")
        os.makedirs(wishes.out, exist_ok=True)
        return wishes.out
    for number in range(1, 99999):
        try:
            path = os.path.join(HERE, "outputs", "%03d" % number)
            os.makedirs(path)
            return path
        except FileExistsError:
            continue
    raise Failed(5, "%s cannot be written" % os.path.join(HERE, "outputs"), "--out DIR")


def main():
    """Run it; the exit code."""
    with open(os.path.join(HERE, "plan.json"), encoding="utf-8", errors="surrogateescape") as stream:
        plan = json.load(stream)
    wishes = read_arguments(plan)
    devices = {"adb": lambda: Adb(wishes.serial), "ssh": lambda: Ssh(wishes.host, wishes.port), "local": Local}
    run = Run(plan, wishes, devices[plan["device"]]())
    try:
        run.check_place()
        if wishes.clean:
            run.ask("rm -rf " + shlex.quote(run.home))
            say("%s is removed" % run.home)
            return 0
        run.check_machine()
        run.find_arch()
        run.push(run.find_vendor())
        out = new_folder(wishes)
        right = True
        for where in run.execute(out):
            right = proved(plan, out, where) and right
            for check in plan["checks"]:
                right = compare(check, out, where) and right
        return 0 if right else 6
    finally:
        run.finish()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except Failed as fault:
        say("error: %s" % fault.text)
        for hint in fault.hints:
            say("  = %s" % hint)
        sys.exit(fault.code)
    except KeyboardInterrupt:
        sys.exit(130)
