"""The QNN delegate of TensorFlow Lite in C; module `java` has its Java API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from udogen.clients import rules
from udogen.clients.client import Client, Snippet
from udogen.clients.device import device_snippets
from udogen.clients.package import Package
from udogen.clients.quoting import block
from udogen.opdef.names import cpp_string

INITIAL_DATA = "CustomInitialData"


PARAMETERS = rules.each_param(
    "parameters",
    lambda param: "" if param.name == INITIAL_DATA else "is mandatory",
    f"the delegate passes one parameter, {INITIAL_DATA}; without the other parameters the op refuses the node (3110)",
    f"read it from {INITIAL_DATA} (UINT_8, 1D), make it optional, or an input",
)


def defaults(packages: Sequence[Package]) -> Iterator[str]:
    """Notes on optional parameters."""
    for package in packages:
        for op in package.models:
            names = [param.name for param in op.params if param.name != INITIAL_DATA and not param.mandatory]
            if op.name in package.ops and names:
                yield f"{', '.join(names)} of {op.name} keeps its default: the delegate passes only {INITIAL_DATA}"


def target(text: str) -> str:
    """The target of an OpPackageInfo: CPU if the library has none."""
    return text or "CPU"


def _snippets(packages: Sequence[Package]) -> Iterator[Snippet]:
    maps, infos = [], []
    for number, package in enumerate(packages):
        pairs = "\n".join(f"                {{{cpp_string(op)}, {cpp_string(op)}}}," for op in package.ops)
        maps.append(
            f"            // The model's custom op, and the op of the package.\n"
            f"            static TfLiteQnnDelegateOpPackageOpMap ops{number}[] = {{\n{pairs}\n            }};"
        )
        infos += [
            f"                {{{cpp_string(package.name)}, {cpp_string(library.path)},\n"
            f"                 {cpp_string(package.provider)},"
            f" {cpp_string(target(library.target))}, {len(package.ops)}, ops{number}}},"
            for library in package.libraries
        ]
    yield Snippet(
        "cpp",
        "cpp",
        block(
            "\n".join(maps)
            + "\n            static TfLiteQnnDelegateOpPackageInfo infos[] = {\n"
            + "\n".join(infos)
            + f"""
            }};
            TfLiteQnnDelegateOptions options = TfLiteQnnDelegateOptionsDefault();
            options.backend_type = kHtpBackend;
            options.op_package_options.num_op_package_infos = {len(infos)};
            options.op_package_options.op_package_infos = infos;
            TfLiteDelegate* delegate = TfLiteQnnDelegateCreate(&options);
            """
        ),
    )
    yield from device_snippets(packages)


RULES = (
    rules.OPS,
    rules.ONE_PLATFORM,
    rules.only_backends(
        "htp", consequence="its documentation describes op packages only for HTP, as a pair of CPU and HTP"
    ),
    rules.ops_once("two packages for one custom op are prohibited, unless they are one package for two targets"),
    PARAMETERS,
)
CLIENT = Client(
    "tflite",
    "the QNN delegate of TFLite",
    "QNN SDK 2.25, docs/QNN/TFLiteDelegate: custom_op.html, c_interface.html",
    RULES,
    _snippets,
    lambda packages: [
        *defaults(packages),
        "only custom ops (kTfLiteBuiltinCustom) go to op packages, never built-in ops of the same name",
        "the command-line tools' external delegate has no option for op packages: use its C API",
    ],
)
