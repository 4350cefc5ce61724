"""Every rule of every client, broken: (client, rule, packages, what is said, what to do)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from udogen.clients.package import ANDROID, LINUX, PC, Library, Package, Place
from udogen.opdef.datatypes import BY_NAME
from udogen.opdef.model import Op, Rank, Tensor

PROVIDER, SCALAR = "ToyInterfaceProvider", Rank(scalar=True)


def toy(**changes: object) -> Package:
    """A package that no client minds, but for the changes."""
    file = Path("/p/libToy.so")
    made = Package(
        name="Toy",
        provider=PROVIDER,
        backend="htp",
        ops=("Op",),
        libraries=(Library(file, str(file), file.name),),
        place=Place(PC, "htp"),
        folder="",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def at(path: str) -> tuple[Library, ...]:
    return (Library(Path(path), path, Path(path).name),)


def with_param(datatype: str, *, mandatory: bool = True, rank: Rank = SCALAR, name: str = "p") -> Package:
    param = Tensor(name, "param", (BY_NAME[datatype],), rank, mandatory=mandatory)
    return toy(models=(Op("Op", (), (), (param,)),))


DEVICE = {"place": Place(LINUX, "htp", "v75"), "folder": "/d"}
BROKEN: list[tuple[str, str, Callable[[], list[Package]], str, str]] = [
    (
        "ort",
        "ops",
        lambda: [toy(ops=())],
        "the ops of package Toy are not known: udogen did not generate it, and it was not asked",
        "name them: --op NAME",
    ),
    (
        "ort",
        "separators",
        lambda: [toy(libraries=at("/p:q/a,b.so"))],
        "the path /p:q/a,b.so contains `:` and `,`",
        "move the package into a folder without them, or link to it",
    ),
    (
        "ort",
        "provider",
        lambda: [toy(provider="Other")],
        "package Toy has the interface provider Other",
        "name it <Package>InterfaceProvider, as generated packages do",
    ),
    (
        "ort",
        "one-op",
        lambda: [toy(ops=("A", "B"))],
        "package Toy has 2 ops (A, B); it takes one of a package",
        "choose the op of your model with --op, or generate a package for each op",
    ),
    (
        "ort",
        "ops-once",
        lambda: [toy(), toy(name="T2", provider="T2InterfaceProvider")],
        "op Op is in package Toy and in T2",
        "leave one of the packages out, or choose ops with --op",
    ),
    (
        "ort",
        "one-place",
        lambda: [toy(), toy(name="T2", provider="T2InterfaceProvider", backend="cpu", ops=("B",))],
        "these packages are for different backends or machines: Toy for htp of pc, T2 for cpu of pc",
        "register them in turn",
    ),
    (
        "ort",
        "attributes",
        lambda: [with_param("STRING")],
        "parameter p of op Op is a STRING",
        "make it an input, or a FLOAT_32 or INT_32",
    ),
    (
        "ort",
        "attributes",
        lambda: [with_param("BOOL_8")],
        "parameter p of op Op is BOOL_8; attributes arrive as FLOAT_32 and INT_32",
        "make it an input, or a FLOAT_32 or INT_32",
    ),
    (
        "ort",
        "attributes",
        lambda: [with_param("FLOAT_32", rank=Rank((2,)))],
        "parameter p of op Op has rank 2D; attributes are scalars and lists",
        "make it an input, or a FLOAT_32 or INT_32",
    ),
    (
        "executorch",
        "backend",
        lambda: [toy(backend="cpu")],
        "package Toy is for cpu",
        "choose with --target a package for htp",
    ),
    (
        "executorch",
        "platform",
        lambda: [toy(**DEVICE)],
        "this is a device with Linux",
        "--android, for a device with Android",
    ),
    (
        "executorch",
        "prepared-on-a-pc",
        lambda: [toy(place=Place(ANDROID, "htp", "v75"), folder="/d")],
        "package Toy has no library for x86-64",
        "build it: udogen build htp_x86 -C DIR",
    ),
    (
        "executorch",
        "attributes",
        lambda: [with_param("STRING")],
        "parameter p of op Op is a STRING",
        "make it a number, or an input",
    ),
    (
        "executorch",
        "lists",
        lambda: [with_param("UINT_32", rank=Rank((1,)))],
        "parameter p of op Op is a tensor",
        "make it an input, or scalars",
    ),
    (
        "litert",
        "one-package",
        lambda: [toy(), toy(name="T2")],
        "it takes one package, and here are Toy, T2",
        "generate one package of all ops: `udogen generate A.xml B.xml`",
    ),
    (
        "litert",
        "backend",
        lambda: [toy(backend="gpu")],
        "package Toy is for gpu",
        "choose with --target a package for htp",
    ),
    (
        "litert",
        "platform",
        lambda: [toy(**DEVICE)],
        "this is a device with Linux",
        "--android, for a device with Android",
    ),
    (
        "litert",
        "separators",
        lambda: [toy(libraries=at("/p;q/\n.so"))],
        "the path /p;q/\n.so contains `;` and a new line",
        "move the package into a folder without them, or link to it",
    ),
    (
        "litert",
        "compiled-on-a-pc",
        lambda: [toy(place=Place(ANDROID, "htp", "v75"), folder="/d")],
        "package Toy has no library for x86-64",
        "build it: udogen build htp_x86 -C DIR",
    ),
    (
        "litert",
        "parameters",
        lambda: [with_param("STRING")],
        "parameter p of op Op is STRING",
        "make it one of these, an input, or optional",
    ),
    (
        "qnn-net-run",
        "separators",
        lambda: [toy(libraries=at("/p,q.so"))],
        "the path /p,q.so contains `,`",
        "move the package into a folder without them, or link to it",
    ),
    (
        "qnn-context-binary-generator",
        "separators",
        lambda: [toy(libraries=at("/p:q.so"))],
        "the path /p:q.so contains `:`",
        "move the package into a folder without them, or link to it",
    ),
    (
        "qnn-net-run",
        "one-place",
        lambda: [toy(), toy(name="T2", backend="cpu")],
        "these packages are for different backends or machines: Toy for htp of pc, T2 for cpu of pc",
        "register them in turn",
    ),
    (
        "tflite",
        "backend",
        lambda: [toy(backend="cpu")],
        "package Toy is for cpu",
        "choose with --target a package for htp",
    ),
    (
        "tflite",
        "parameters",
        lambda: [with_param("FLOAT_32")],
        "op Op has the mandatory parameter p",
        "read it from CustomInitialData (UINT_8, 1D), make it optional, or an input",
    ),
    (
        "tflite",
        "ops-once",
        lambda: [toy(), toy(name="T2")],
        "op Op is in package Toy and in T2",
        "leave one of the packages out, or choose ops with --op",
    ),
    (
        "snpe-net-run",
        "registration",
        lambda: [toy()],
        "package Toy has no registration library: it is in the layout of QNN",
        "generate with --layout snpe, and give that folder",
    ),
    (
        "snpe-net-run",
        "built",
        lambda: [toy(registration=Path("/none/libUdoToyReg.so"))],
        "there is no file /none/libUdoToyReg.so",
        "build it: udogen build reg_x86 cpu_x86 -C DIR",
    ),
    (
        "snpe-net-run",
        "separators",
        lambda: [toy(registration=Path(__file__), place=Place(LINUX, "htp", "v75"), folder="/a,b")],
        "the path /a,b/broken_rules.py contains `,`",
        "move the package into a folder without it",
    ),
    (
        "snpe-dlc-quantize",
        "pc",
        lambda: [toy(registration=Path(__file__), **DEVICE)],
        "it runs on a PC with x86-64",
        "leave --target and --android out",
    ),
    (
        "genie",
        "no-option",
        lambda: [toy()],
        "its configuration has no key for op packages, and Toy cannot be registered with it",
        "run the context binaries with `udogen run context DIR --op-package LIB`, or from C++ (--client cpp)",
    ),
    ("java", "android", lambda: [toy()], "it runs in Android apps alone", "--android with --target v75"),
    (
        "java",
        "library-names",
        lambda: [toy(place=Place(ANDROID, "htp", "v75"), libraries=at("/p/toy.so"))],
        "the file toy.so is not called lib….so",
        "build it under such a name",
    ),
    (
        "java",
        "parameters",
        lambda: [replace(with_param("FLOAT_32"), place=Place(ANDROID, "htp", "v75"))],
        "op Op has the mandatory parameter p",
        "read it from CustomInitialData (UINT_8, 1D), make it optional, or an input",
    ),
    (
        "cpp",
        "one-place",
        lambda: [toy(), toy(name="T2", backend="cpu")],
        "these packages are for different backends or machines: Toy for htp of pc, T2 for cpu of pc",
        "register them in turn",
    ),
]
ON_ANDROID = {"place": Place(ANDROID, "htp", "v75"), "folder": "/d"}
# Rules that several clients have: (clients, rule, packages, what is said, what to do).
SHARED: list[tuple[str, str, Callable[[], list[Package]], str, str]] = [
    (
        "executorch tflite java",
        "ops",
        lambda: [toy(ops=())],
        "the ops of package Toy are not known: udogen did not generate it, and it was not asked",
        "name them: --op NAME",
    ),
    (
        "executorch tflite java qnn-context-binary-generator",
        "one-place",
        lambda: [toy(), toy(name="T2", backend="cpu")],
        "these packages are for different backends or machines: Toy for htp of pc, T2 for cpu of pc",
        "register them in turn",
    ),
    (
        "executorch java",
        "ops-once",
        lambda: [toy(), toy(name="T2")],
        "op Op is in package Toy and in T2",
        "leave one of the packages out, or choose ops with --op",
    ),
    (
        "java",
        "backend",
        lambda: [toy(**ON_ANDROID, backend="cpu")],
        "package Toy is for cpu",
        "choose with --target a package for htp",
    ),
    (
        "snpe-dlc-quantize",
        "registration",
        lambda: [toy()],
        "package Toy has no registration library: it is in the layout of QNN",
        "generate with --layout snpe, and give that folder",
    ),
    (
        "snpe-dlc-quantize cpp java",
        "built",
        lambda: [toy(registration=Path("/none/libUdoToyReg.so"))],
        "there is no file /none/libUdoToyReg.so",
        "build it: udogen build reg_x86 cpu_x86 -C DIR",
    ),
    (
        "snpe-dlc-quantize",
        "separators",
        lambda: [toy(registration=Path("/a,b/libUdoToyReg.so"))],
        "the path /a,b/libUdoToyReg.so contains `,`",
        "move the package into a folder without it",
    ),
]
BROKEN += [(client, *row[1:]) for row in SHARED for client in row[0].split()]
