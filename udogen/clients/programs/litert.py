"""LiteRT's compiler and dispatch plug-ins for Qualcomm."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from udogen.clients import rules
from udogen.clients.client import Client, Snippet
from udogen.clients.device import device_snippets
from udogen.clients.package import Library, Package
from udogen.clients.quoting import block
from udogen.opdef.model import Tensor
from udogen.opdef.names import cpp_string


def _paths(package: Package) -> Sequence[Library]:
    host = package.host_library
    return [*package.libraries, *([Library(host, str(host), host.name)] if host else [])]


# The types that values of a model's custom options have when they reach the package.
_OPTION_TYPES = {"BOOL_8", "INT_32", "UINT_32", "FLOAT_32", "BACKEND_SPECIFIC"}


def _parameter_fault(param: Tensor) -> str:
    types = {each.name for each in param.datatypes}
    return "" if types & _OPTION_TYPES else f"is {' or '.join(sorted(types))}"


def _fields(package: Package, compile_path: str, dispatch_path: str) -> dict[str, str]:
    return {
        "name": package.name,
        "interface_provider": package.provider,
        "compile_package_path": compile_path,
        "dispatch_package_path": dispatch_path,
        # Dispatch passes it to QNN: HTP on a device, CPU on a PC, where libQnnHtp.so refuses HTP (4003).
        "target": "HTP" if package.platform.is_device else "CPU",
    }


def _flag(fields: dict[str, str]) -> str:
    value = "".join(f"{name}:{text};" for name, text in fields.items())
    return f"--qualcomm_custom_op_package={shlex.quote(value)}"


def _snippets(packages: Sequence[Package]) -> Iterator[Snippet]:
    package = packages[0]
    dispatch = package.hexagon.path if package.hexagon else package.library.path
    compiled = _fields(package, str(package.host_library), dispatch)
    yield Snippet("flag", "sh", _flag(compiled))
    if package.hexagon:
        # To compile on the device itself, the plug-in registers the ARM library for CPU.
        yield Snippet("flag-on-device", "sh", _flag(_fields(package, package.library.path, dispatch)))
    lines = "\n".join(f"            package.{name} = {cpp_string(text)};" for name, text in compiled.items())
    yield Snippet(
        "cpp",
        "cpp",
        block(f"""
            litert::qualcomm::QualcommOptions::CustomOpPackage package;
{lines}
            options.SetCustomOpPackage(package);
        """),
    )
    yield from device_snippets(packages)


CLIENT = Client(
    "litert",
    "LiteRT",
    "LiteRT 1.5.0 (f67457790): qualcomm_flags.cc, litert_qualcomm_options.cc, litert_toml_parser.cc, vendors/qualcomm",
    (
        rules.one_package("the option holds one package; a second one replaces it"),
        rules.only_backends(
            "htp", consequence="it ignores op packages on every other backend, with a line at level info"
        ),
        rules.not_linux_devices("its dispatch plug-in is for Android"),
        rules.no_characters(
            ";\n",
            consequence="`;` ends a field, and a new line ends the text of all options: the path is cut off, or all "
            "options are refused (kLiteRtStatusErrorInvalidArgument)",
            libraries=_paths,
        ),
        rules.host_library("the compiler plug-in finds no package, and leaves the custom op to the CPU"),
        rules.each_param(
            "parameters",
            _parameter_fault,
            "custom options arrive as BOOL_8, INT_32, UINT_32 and FLOAT_32, as scalars or lists; other values stop the "
            "compiler (kLiteRtStatusErrorUnsupported), and an op that lacks one is refused (3110)",
            "make it one of these, an input, or optional",
        ),
    ),
    _snippets,
    lambda packages: [
        "the op's type is the model's custom code; custom options (flexbuffers) arrive as parameters by their keys",
        "a flexbuffer's int becomes INT_32, its uint UINT_32; wider numbers are truncated",
        "it always compiles for the target CPU; `target` is used for dispatch only",
    ],
)
