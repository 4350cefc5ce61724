"""All clients, by name: their rules, the data of their templates, notes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

from udogen import backends
from udogen.backends import cpu
from udogen.clients import rules
from udogen.clients.client import Client, ClientRule, Snippet
from udogen.clients.package import ANDROID, REGISTRATION_TARGETS, Library, Package
from udogen.clients.snippets import Literal, device_snippets, parts, parts_of, sent_files
from udogen.opdef.model import Tensor
from udogen.plugins import Registry

# --- ExecuTorch -----------------------------------------------------------------------------------------


def _torch_name(package: Package, op: str) -> str:
    """The PyTorch operator that an op is assumed to implement."""
    names = (re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower() for name in (package.name, op))
    return f"{'.'.join(names)}.default"


def _places(package: Package) -> Iterator[tuple[str, str, str]]:
    """(path, target, platform): the library that prepares ops on a PC, then the libraries on the device."""
    if package.host_library is not None:
        yield str(package.host_library), "CPU", "X86_64"
    if package.platform.is_device:
        # The Hexagon library also has its full path, as in ExecuTorch's own example.
        yield from (
            (f"{package.folder}/{library.name}", library.target, "AARCH64_ANDROID") for library in package.libraries
        )


def _executorch(packages: Sequence[Package]) -> Iterator[Snippet]:
    first = packages[0]
    infos = [
        SimpleNamespace(
            package=Literal(package.name),
            provider=Literal(package.provider),
            op=Literal(op),
            torch_name=Literal(_torch_name(package, op)),
            path=Literal(path),
            target=target,
            platform=platform,
        )
        for package in packages
        for op in package.ops
        for path, target, platform in _places(package)
    ]
    # The newer interface reads the config, and accepts one package.
    config = str(first.config.resolve()) if len(packages) == 1 and first.config is not None else ""
    yield from parts(
        "executorch",
        packages,
        infos=infos,
        config=Literal(config),
        provider=Literal(first.provider),
        names=", ".join(f"{Literal(op).python}: torch.ops.{_torch_name(first, op)}" for op in first.ops),
        libraries=[info for info in infos if info.op == first.ops[0]],
    )
    yield from device_snippets(packages)


EXECUTORCH = Client(
    "executorch",
    "ExecuTorch",
    "ExecuTorch 1.5.1, backends/qualcomm: qc_schema.py, custom_op/interface.py, op_custom_op.py, QnnBackendCommon.cpp",
    (
        rules.OPS,
        rules.ONE_PLATFORM,
        rules.only_backends(
            "htp", consequence="its op packages are only for the targets CPU and HTP of the HTP backend"
        ),
        rules.not_linux_devices(
            "it knows the platforms X86_64 and AARCH64_ANDROID; elsewhere it skips every package without an error"
        ),
        rules.host_library("models are lowered on a PC: without a library for it the op is not delegated"),
        rules.ops_once("the first one wins"),
        rules.each_param(
            "attributes",
            lambda param: "is a STRING" if "STRING" in {datatype.name for datatype in param.datatypes} else "",
            "a string argument cannot be lowered",
            "make it a number, or an input",
        ),
        rules.each_param(
            "lists",
            lambda param: "" if param.is_scalar else "is a tensor",
            "it writes a list as 64-bit numbers and declares them as 32-bit: the op reads every other one as 0",
            "make it an input, or scalars",
        ),
    ),
    _executorch,
    lambda packages: [
        "a failed registration is logged, not raised: read the log with `udogen explain LOG`",
        "tensor arguments of the torch operator are inputs, its other arguments parameters: by order, not by name",
        f"{_torch_name(packages[0], packages[0].ops[0])} is a placeholder: use the name of your operator",
        "custom_op.interface needs Qualcomm's generator; `python -m udogen.compat.qti YOUR_PROGRAM.py` replaces it",
    ],
)

# --- LiteRT ---------------------------------------------------------------------------------------------

# The types that values of a model's custom options have when they reach the package.
_OPTION_TYPES = {"BOOL_8", "INT_32", "UINT_32", "FLOAT_32", "BACKEND_SPECIFIC"}


def _option_fault(param: Tensor) -> str:
    types = {datatype.name for datatype in param.datatypes}
    return "" if types & _OPTION_TYPES else f"is {' or '.join(sorted(types))}"


def _litert_libraries(package: Package) -> Sequence[Library]:
    host = package.host_library
    return [*package.libraries, *([Library(host, str(host), host.name)] if host else [])]


def _litert_flag(fields: dict[str, Literal]) -> str:
    value = "".join(f"{name}:{text};" for name, text in fields.items())
    return f"--qualcomm_custom_op_package={shlex.quote(value)}"


def _litert(packages: Sequence[Package]) -> Iterator[Snippet]:
    package = packages[0]
    fields = {
        "name": Literal(package.name),
        "interface_provider": Literal(package.provider),
        "compile_package_path": Literal(package.host_library),
        "dispatch_package_path": Literal((package.hexagon or package.library).path),
        # Dispatch passes it to QNN: HTP on a device, CPU on a PC, where libQnnHtp.so refuses HTP (4003).
        "target": Literal("HTP" if package.platform.is_device else "CPU"),
    }
    # To compile on the device itself, the plug-in registers the ARM library for CPU.
    on_device = _litert_flag({**fields, "compile_package_path": Literal(package.library.path)})
    yield from parts(
        "litert",
        packages,
        flag=_litert_flag(fields),
        flag_on_device=on_device if package.hexagon else "",
        fields=list(fields.items()),
    )
    yield from device_snippets(packages)


LITERT = Client(
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
            libraries=_litert_libraries,
        ),
        rules.host_library("the compiler plug-in finds no package, and leaves the custom op to the CPU"),
        rules.each_param(
            "parameters",
            _option_fault,
            "custom options arrive as BOOL_8, INT_32, UINT_32 and FLOAT_32, as scalars or lists; other values stop the "
            "compiler (kLiteRtStatusErrorUnsupported), and an op that lacks one is refused (3110)",
            "make it one of these, an input, or optional",
        ),
    ),
    _litert,
    lambda _packages: [
        "the op's type is the model's custom code; custom options (flexbuffers) arrive as parameters by their keys",
        "a flexbuffer's int becomes INT_32, its uint UINT_32; wider numbers are truncated",
        "it always compiles for the target CPU; `target` is used for dispatch only",
    ],
)

# --- programs of the QNN SDK ----------------------------------------------------------------------------

_SEPARATORS = "it takes the rest as another field: `Malformed opPackageString provided`, or a missing file"


def _op_packages(packages: Sequence[Package], client: str, *, targets: bool) -> Iterator[Snippet]:
    entries = ",".join(
        ":".join([library.path, package.provider, *([library.target] if targets and library.target else [])])
        for package in packages
        for library in package.libraries
        if targets or not library.hexagon
    )
    yield from parts(client, packages, option=f"--op_packages {shlex.quote(entries)}")
    yield from device_snippets(packages)


NET_RUN = Client(
    "qnn-net-run",
    "qnn-net-run",
    "QNN SDK 2.25, docs/QNN/general/tools.html, and examples/QNN/SampleApp (registerOpPackages)",
    (rules.ONE_PLATFORM, rules.no_characters(":,", consequence=_SEPARATORS)),
    lambda packages: _op_packages(packages, "qnn-net-run", targets=True),
    lambda packages: (
        ["the ARM library prepares graphs; with --retrieve_context the Hexagon one would be enough"]
        if packages[0].hexagon
        else []
    ),
)
GENERATOR = Client(
    "qnn-context-binary-generator",
    "qnn-context-binary-generator",
    "QNN SDK 2.25, docs/QNN/general/tools.html: PATH:PROVIDER, without a target",
    (
        rules.ONE_PLATFORM,
        rules.no_characters(":,", consequence=_SEPARATORS, libraries=lambda package: [package.library]),
    ),
    lambda packages: _op_packages(packages, "qnn-context-binary-generator", targets=False),
    lambda _packages: ["it only prepares: the Hexagon library is registered where the context binary runs"],
)
# --- SNPE -----------------------------------------------------------------------------------------------


def _not_built(package: Package) -> str:
    """The libraries that are missing, with the targets that build them."""
    registration, platform = package.registration, package.platform
    if registration is None:
        return ""
    folder = f" -C {shlex.quote(str(package.built.path))}" if package.built else ""
    if not registration.is_file():
        return f"{registration} does not exist (udogen build {REGISTRATION_TARGETS[platform.system]}{folder})"
    rows = [(part, row) for part in parts_of(package) for row in part.rows if row.arch == platform.arch and row.arch]
    if rows and not any(file.is_file() for part, row in rows for file in part.artifacts(row)):
        part, row = rows[0]
        return f"{part.artifacts(row)[0]} does not exist (udogen build {part.goal(row)}{folder})"
    return ""


def _no_cpu(package: Package) -> str:
    implemented = {part.backend for part in parts_of(package)}
    return (
        f"package {package.name} has no CPU implementation" if implemented and cpu.BACKEND.id not in implemented else ""
    )


_BUILT = rules.each_package(
    "built",
    _not_built,
    "the package cannot be registered, or its ops cannot run (1106)",
    "build it; for Android that needs an NDK, and without --android the device has Linux",
)
_SNPE_RULES = (
    rules.each_package(
        "registration",
        lambda package: (
            "" if package.registration else f"package {package.name} has no registration library: it has the layout qnn"
        ),
        "SNPE reads the contents of a package from its registration library (libUdo<Package>Reg.so), and takes no "
        "other library (1106)",
        "generate with --layout snpe, and give that folder",
    ),
    _BUILT,
    rules.each_package(
        "separators",
        lambda package: (
            f"the path {package.registration_path} contains `,`" if "," in package.registration_path else ""
        ),
        "a comma separates registration libraries",
        "move the package into a folder without it",
    ),
)


def _snpe(packages: Sequence[Package], client: str, option: str) -> Iterator[Snippet]:
    paths = ",".join(package.registration_path for package in packages)
    platform = packages[0].platform
    core = backends.ALL[platform.backend].udo if platform.is_device and platform.backend in backends.ALL else None
    words = [*(core.net_run if core else ()), *(["--platform_options", "unsignedPD:ON"] if platform.arch else [])]
    yield from parts(client, packages, option=option + shlex.quote(paths), core="".join(f" {word}" for word in words))
    yield from device_snippets(packages, for_snpe=True)


SNPE_NET_RUN = Client(
    "snpe-net-run",
    "snpe-net-run",
    "SNPE 2.25, docs: running_model_with_udo.html, tools_execution.html",
    _SNPE_RULES,
    lambda packages: _snpe(packages, "snpe-net-run", "--udo_package_path "),
    lambda _packages: ["SNPE requires an absolute path; the loader finds the implementation libraries"],
)
SNPE_QUANTIZE = Client(
    "snpe-dlc-quantize",
    "snpe-dlc-quantize",
    "SNPE 2.25, docs: preparing_model_with_udo.html, tools_model_preparation.html",
    (
        rules.each_package(
            "pc",
            lambda package: "it runs on a PC with x86-64" if package.platform.is_device else "",
            "it does not exist for devices",
            "leave --target and --android out",
        ),
        *_SNPE_RULES,
        rules.each_package(
            "cpu",
            _no_cpu,
            "it runs the network on the CPU to measure its ranges: every UDO needs a CPU implementation",
            "generate for the CPU too (--backend cpu --backend htp), and build cpu_x86",
        ),
    ),
    lambda packages: _snpe(packages, "snpe-dlc-quantize", "--udo_package_path="),
    lambda _packages: ["snpe-dlc-quant and snpe-dlc-graph-prepare take the same option"],
)

# --- the QNN delegate of TensorFlow Lite, and your own programs -----------------------------------------

_INITIAL_DATA = "CustomInitialData"


def _of_snpe(packages: Sequence[Package]) -> bool:
    return all(package.registration is not None for package in packages)


def _tflite(packages: Sequence[Package]) -> Iterator[Snippet]:
    yield from parts("tflite", packages)
    yield from device_snippets(packages)


def _kept_defaults(packages: Sequence[Package]) -> Iterator[str]:
    """Notes on optional parameters."""
    for package in packages:
        for op in package.models:
            names = [param.name for param in op.params if param.name != _INITIAL_DATA and not param.mandatory]
            if op.name in package.ops and names:
                yield f"{', '.join(names)} of {op.name} keeps its default: the delegate passes only {_INITIAL_DATA}"


_TFLITE_RULES = (
    rules.OPS,
    rules.ONE_PLATFORM,
    rules.only_backends(
        "htp", consequence="its documentation describes op packages only for HTP, as a pair of CPU and HTP"
    ),
    rules.ops_once("two packages for one custom op are prohibited, unless they are one package for two targets"),
    rules.each_param(
        "parameters",
        lambda param: "" if param.name == _INITIAL_DATA else "is mandatory",
        f"the delegate passes one parameter, {_INITIAL_DATA}; without the other parameters the op refuses the node "
        "(3110)",
        f"read it from {_INITIAL_DATA} (UINT_8, 1D), make it optional, or an input",
    ),
)
TFLITE = Client(
    "tflite",
    "the QNN delegate of TFLite",
    "QNN SDK 2.25, docs/QNN/TFLiteDelegate: custom_op.html, c_interface.html",
    _TFLITE_RULES,
    _tflite,
    lambda packages: [
        *_kept_defaults(packages),
        "only custom ops (kTfLiteBuiltinCustom) go to op packages, never built-in ops of the same name",
        "the command-line tools' external delegate has no option for op packages: use its C API",
    ],
)


def _cpp(packages: Sequence[Package]) -> Iterator[Snippet]:
    of_snpe = _of_snpe(packages)
    calls_runtime = backends.ALL[packages[0].backend].calls_runtime
    yield from parts("cpp", packages, for_snpe=of_snpe, calls_runtime=calls_runtime)
    yield from device_snippets(packages, for_snpe=of_snpe)


CPP = Client(
    "cpp",
    "C++",
    "QnnBackend.h of core API 2.36 (SDK 2.47); SNPEFactory.hpp of SNPE 2.25",
    (rules.ONE_PLATFORM, _BUILT),
    _cpp,
)


def _java(packages: Sequence[Package]) -> Iterator[Snippet]:
    of_snpe = _of_snpe(packages)
    files = [(file, Path(name).name) for package in packages for file, name, _ in sent_files(package, for_snpe=of_snpe)]
    yield from parts("java", packages, for_snpe=of_snpe, files=files)


def _unless_snpe(rule: ClientRule) -> ClientRule:
    return rule._replace(faults=lambda packages: iter(()) if _of_snpe(packages) else rule.faults(packages))


def _library_names(package: Package) -> str:
    odd = [
        library.name
        for library in package.libraries
        if not (library.name.startswith("lib") and library.name.endswith(".so"))
    ]
    return "; ".join(f"the file {name} has no name of the form lib….so" for name in odd)


JAVA = Client(
    "java",
    "Java on Android",
    "QNN SDK 2.25, docs/QNN/TFLiteDelegate/java_interface.html; SNPE 2.25, running_model_with_udo.html",
    (
        rules.each_package(
            "android",
            lambda package: "" if package.platform.system == ANDROID else "it runs in Android apps only",
            "an Android app loads only libraries for Android",
            "--android with --target v75",
        ),
        *map(_unless_snpe, _TFLITE_RULES),
        rules.each_package(
            "library-names",
            _library_names,
            "the installer unpacks only lib*.so from an APK",
            "build it under such a name",
        ),
        _BUILT,
    ),
    _java,
    lambda packages: [
        *([] if _of_snpe(packages) else _kept_defaults(packages)),
        "libraries must be unpacked as files: extractNativeLibs, or useLegacyPackaging in Gradle",
    ],
)

_CLIENTS = (EXECUTORCH, LITERT, NET_RUN, GENERATOR, TFLITE, SNPE_NET_RUN, SNPE_QUANTIZE, CPP, JAVA)
ALL: Registry[Client] = Registry("clients", {client.name: client for client in _CLIENTS})
