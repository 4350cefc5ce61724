"""Every rule of every client, broken: (clients, rule, packages, the sentence of the error)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from udogen.clients.package import ANDROID, LINUX, PC, Library, Package, Platform
from udogen.opdef.datatypes import BY_NAME
from udogen.opdef.model import Op, Rank, Tensor

PROVIDER, SCALAR = "ToyInterfaceProvider", Rank(scalar=True)
PHONE, BOARD = Platform(ANDROID, "htp", "v75"), Platform(LINUX, "htp", "v75")


def toy(**changes: object) -> Package:
    """Return a package that breaks no rule, except through the changes."""
    file = Path("/p/libToy.so")
    made = Package(
        name="Toy",
        provider=PROVIDER,
        backend="htp",
        ops=("Op",),
        libraries=(Library(file, str(file), file.name),),
        platform=Platform(PC, "htp"),
        folder="",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def at(path: str) -> tuple[Library, ...]:
    return (Library(Path(path), path, Path(path).name),)


def with_param(datatype: str, *, rank: Rank = SCALAR, **changes: object) -> Package:
    """Return a package whose op has one mandatory parameter."""
    param = Tensor("p", "param", (BY_NAME[datatype],), rank, mandatory=True)
    return toy(models=(Op("Op", (), (), (param,)),), **changes)


def two(**changes: object) -> list[Package]:
    """Return two packages."""
    return [toy(), toy(name="T2", **changes)]


UNREGISTERED = Path("/none/libUdoToyReg.so")
Row = tuple[str, str, Callable[[], list[Package]], str]
_ROWS: list[Row] = [
    (
        "ort executorch tflite java",
        "ops",
        lambda: [toy(ops=())],
        "the ops of package Toy are unknown: udogen did not generate it, and cannot load it here",
    ),
    (
        "ort executorch tflite java cpp qnn-net-run qnn-context-binary-generator",
        "one-platform",
        lambda: two(backend="cpu"),
        "these packages are for different backends or machines: Toy for htp of pc, T2 for cpu of pc",
    ),
    ("ort executorch tflite java", "ops-once", two, "op Op is in package Toy and in T2"),
    ("executorch litert tflite", "backend", lambda: [toy(backend="gpu")], "package Toy is for gpu"),
    ("java", "backend", lambda: [toy(platform=PHONE, backend="cpu")], "package Toy is for cpu"),
    ("executorch litert", "platform", lambda: [toy(platform=BOARD)], "this is a device with Linux"),
    ("executorch litert", "host-library", lambda: [toy(platform=PHONE)], "package Toy has no library for x86-64"),
    (
        "ort",
        "separators",
        lambda: [toy(libraries=at("/p:q/a,b.so"))],
        "the path /p:q/a,b.so contains `:` and `,`",
    ),
    ("qnn-net-run", "separators", lambda: [toy(libraries=at("/p,q.so"))], "the path /p,q.so contains `,`"),
    (
        "qnn-context-binary-generator",
        "separators",
        lambda: [toy(libraries=at("/p:q.so"))],
        "the path /p:q.so contains `:`",
    ),
    (
        "litert",
        "separators",
        lambda: [toy(libraries=at("/p;q/\n.so"))],
        "the path /p;q/\n.so contains `;` and a new line",
    ),
    (
        "snpe-net-run",
        "separators",
        lambda: [toy(registration=Path(__file__), platform=BOARD, folder="/a,b")],
        "the path /a,b/broken_rules.py contains `,`",
    ),
    (
        "snpe-dlc-quantize",
        "separators",
        lambda: [toy(registration=Path("/a,b/libUdoToyReg.so"))],
        "the path /a,b/libUdoToyReg.so contains `,`",
    ),
    ("ort", "provider", lambda: [toy(provider="Other")], "package Toy has the interface provider Other"),
    ("ort", "one-op", lambda: [toy(ops=("A", "B"))], "package Toy has 2 ops (A, B); it takes one op per package"),
    ("ort executorch", "attributes", lambda: [with_param("STRING")], "parameter p of op Op is a STRING"),
    (
        "ort",
        "attributes",
        lambda: [with_param("FLOAT_16")],
        "parameter p of op Op is FLOAT_16; attributes arrive as FLOAT_32 and INT_32",
    ),
    (
        "ort",
        "attributes",
        lambda: [with_param("FLOAT_32", rank=Rank((2,)))],
        "parameter p of op Op has rank 2D; attributes are scalars and lists",
    ),
    ("executorch", "lists", lambda: [with_param("UINT_32", rank=Rank((1,)))], "parameter p of op Op is a tensor"),
    ("litert", "one-package", two, "it takes one package, not 2: Toy, T2"),
    ("litert", "parameters", lambda: [with_param("STRING")], "parameter p of op Op is STRING"),
    ("tflite", "parameters", lambda: [with_param("FLOAT_32")], "parameter p of op Op is mandatory"),
    ("java", "parameters", lambda: [with_param("FLOAT_32", platform=PHONE)], "parameter p of op Op is mandatory"),
    (
        "snpe-net-run snpe-dlc-quantize",
        "registration",
        lambda: [toy()],
        "package Toy has no registration library: it has the layout qnn",
    ),
    (
        "snpe-net-run snpe-dlc-quantize cpp java",
        "built",
        lambda: [toy(registration=UNREGISTERED)],
        f"{UNREGISTERED} does not exist (udogen build reg_x86)",
    ),
    (
        "snpe-dlc-quantize",
        "pc",
        lambda: [toy(registration=Path(__file__), platform=BOARD, folder="/d")],
        "it runs on a PC with x86-64",
    ),
    ("java", "android", lambda: [toy()], "it runs in Android apps only"),
    (
        "java",
        "library-names",
        lambda: [toy(platform=PHONE, libraries=at("/p/toy.so"))],
        "the file toy.so has no name of the form lib….so",
    ),
]
BROKEN: list[Row] = [(client, *row[1:]) for row in _ROWS for client in row[0].split()]
