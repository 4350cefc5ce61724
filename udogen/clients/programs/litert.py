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


def _parameters(packages: Sequence[Package]) -> Iterator[str]:
    for package in packages:
        for op in package.models:
            for param in op.params:
                types = {each.name for each in param.datatypes}
                if op.name in package.ops and param.mandatory and not types & _OPTIONS:
                    yield f"parameter {param.name} of op {op.name} is {' or '.join(sorted(types))}"


# What values of a model's custom options become.
_OPTIONS = {"BOOL_8", "INT_32", "UINT_32", "FLOAT_32", "BACKEND_SPECIFIC"}


def _fields(package: Package, compile_path: str, dispatch_path: str) -> dict[str, str]:
    return {
        "name": package.name,
        "interface_provider": package.provider,
        "compile_package_path": compile_path,
        "dispatch_package_path": dispatch_path,
        # Dispatch hands it to QNN as it is: on a device HTP, on a PC CPU, for libQnnHtp.so there refuses HTP (4003).
        "target": "HTP" if package.place.device else "CPU",
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
    "LiteRT 1.5.0 (f67457790): qualcomm_flags.cc, litert_qualcomm_options.cc, litert_toml_parser.cc, vendors/qualcomm",
    (
        rules.one_package("the option holds one; a second one replaces it"),
        rules.only_backends(
            "htp", consequence="it ignores op packages on every other backend, with a line at level info"
        ),
        rules.not_linux_devices("its dispatch plug-in is for Android"),
        rules.no_characters(
            ";\n",
            consequence="`;` ends a field, and a new line the text that hands the options on: the path is cut off, or "
            "all of them are refused (kLiteRtStatusErrorInvalidArgument)",
            libraries=_paths,
        ),
        Rule(
            "compiled-on-a-pc",
            no_host_library,
            "the compiler plug-in finds no package, and leaves the custom op to the CPU",
            "build it: udogen build htp_x86 -C DIR",
        ),
        Rule(
            "parameters",
            _parameters,
            "custom options arrive as BOOL_8, INT_32, UINT_32 and FLOAT_32, alone or in lists; other values stop the "
            "compiler (kLiteRtStatusErrorUnsupported), and an op that lacks one is refused (3110)",
            "make it one of these, an input, or optional",
        ),
    ),
    lambda packages: list(_tell(packages)),
    lambda packages: [
        "the op's type is the model's custom code; its custom options (flexbuffers) arrive as parameters of their keys",
        "a flexbuffer's int becomes INT_32, its uint UINT_32; numbers of more bits are cut",
        "while it compiles the target is CPU whatever is said here; `target` is that of dispatch",
    ],
)
