"""LiteRT's compiler and dispatch plug-ins for Qualcomm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from udogen.clients import rules
from udogen.clients.client import Client, Part, Rule
from udogen.clients.package import Library, Package
from udogen.clients.programs.parts import device_parts
from udogen.clients.programs.pc import host_library, no_host_library
from udogen.clients.quoting import block, cpp, shell


def _paths(package: Package) -> Sequence[Library]:
    host = host_library(package)
    return [*package.libraries, *([Library(host, str(host), host.name)] if host else [])]


def _fields(package: Package, compile_path: str, dispatch_path: str) -> dict[str, str]:
    return {
        "name": package.name,
        "interface_provider": package.provider,
        "compile_package_path": compile_path,
        "dispatch_package_path": dispatch_path,
        "target": "HTP",
    }


def _flag(fields: dict[str, str]) -> str:
    value = "".join(f"{name}:{text};" for name, text in fields.items())
    return f"--qualcomm_custom_op_package={shell(value)}"


def _tell(packages: Sequence[Package]) -> Iterator[Part]:
    package = packages[0]
    host = host_library(package)
    dispatch = package.hexagon.path if package.hexagon else package.library.path
    compiled = _fields(package, str(host), dispatch)
    yield Part("flag", "sh", _flag(compiled))
    if package.hexagon:
        # Compiled on the device itself: by the ARM library, which the plug-in registers for CPU.
        yield Part("flag-on-device", "sh", _flag(_fields(package, package.library.path, dispatch)))
    lines = "\n".join(f"            package.{name} = {cpp(text)};" for name, text in compiled.items())
    yield Part(
        "cpp",
        "cpp",
        block(f"""
            litert::qualcomm::QualcommOptions::CustomOpPackage package;
{lines}
            options.SetCustomOpPackage(package);
        """),
    )
    yield from device_parts(packages)


CLIENT = Client(
    "litert",
    "LiteRT",
    "LiteRT 1.5.0 (f67457790), litert/tools/flags/vendors/qualcomm_flags.cc, litert/vendors/qualcomm",
    (
        rules.one_package("the option holds one; a second one replaces it"),
        rules.only_backends(
            "htp", consequence="it ignores op packages on every other backend, with a line at level info"
        ),
        rules.not_linux_devices("its dispatch plug-in is for Android"),
        rules.no_characters(
            ';"\n',
            consequence="`;` ends a field, and a quote the text that holds the options: the path is cut off",
            libraries=_paths,
        ),
        Rule(
            "compiled-on-a-pc",
            no_host_library,
            "the compiler plug-in finds no package, and leaves the custom op to the CPU",
            "build it: udogen build htp_x86 -C DIR",
        ),
    ),
    lambda packages: list(_tell(packages)),
    lambda packages: [
        "the op's type is the model's custom code; its custom options (flexbuffers) arrive as parameters of their keys",
        "while it compiles the target is CPU whatever is said here; `target` is that of dispatch",
    ],
)
