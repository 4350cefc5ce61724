"""The QNN delegate of TensorFlow Lite, from C; its Java side is in `java`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from udogen.clients import rules
from udogen.clients.client import Client, Part, Rule
from udogen.clients.package import Package
from udogen.clients.programs.parts import device_parts
from udogen.clients.quoting import block, cpp

INITIAL_DATA = "CustomInitialData"


def _parameters(packages: Sequence[Package]) -> Iterator[str]:
    for package in packages:
        for op in package.models:
            for param in op.params:
                if op.name in package.ops and param.mandatory and param.name != INITIAL_DATA:
                    yield f"op {op.name} has the mandatory parameter {param.name}"


PARAMETERS = Rule(
    "parameters",
    _parameters,
    f"the delegate passes one parameter, {INITIAL_DATA}; without the others the op refuses the node (3110)",
    f"read it from {INITIAL_DATA} (UINT_8, 1D), make it optional, or an input",
)


def defaults(packages: Sequence[Package]) -> Iterator[str]:
    """What happens to optional parameters."""
    for package in packages:
        for op in package.models:
            names = [param.name for param in op.params if param.name != INITIAL_DATA and not param.mandatory]
            if op.name in package.ops and names:
                yield f"{', '.join(names)} of {op.name} keeps its default: the delegate passes {INITIAL_DATA} alone"


def target(text: str) -> str:
    """The target of an info: HTP's libraries have one, on a PC it is CPU."""
    return text or "CPU"


def _tell(packages: Sequence[Package]) -> Iterator[Part]:
    maps, infos = [], []
    for number, package in enumerate(packages):
        pairs = "\n".join(f"                {{{cpp(op)}, {cpp(op)}}}," for op in package.ops)
        maps.append(
            f"            // The model's custom op, and the op of the package.\n"
            f"            static TfLiteQnnDelegateOpPackageOpMap ops{number}[] = {{\n{pairs}\n            }};"
        )
        infos += [
            f"                {{{cpp(package.name)}, {cpp(library.path)},\n"
            f"                 {cpp(package.provider)},"
            f" {cpp(target(library.target))}, {len(package.ops)}, ops{number}}},"
            for library in package.libraries
        ]
    yield Part(
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
    yield from device_parts(packages)


RULES = (
    rules.OPS,
    rules.ONE_PLACE,
    rules.only_backends("htp", consequence="its documentation has op packages for HTP alone, as a pair of CPU and HTP"),
    rules.ops_once("two packages for one custom op are prohibited, unless they are one package for two targets"),
    PARAMETERS,
)
CLIENT = Client(
    "tflite",
    "the QNN delegate of TFLite",
    "QNN SDK 2.25, docs/QNN/TFLiteDelegate: custom_op.html, c_interface.html",
    RULES,
    lambda packages: list(_tell(packages)),
    lambda packages: [
        *defaults(packages),
        "only custom ops (kTfLiteBuiltinCustom) go to op packages, never built-in ones, whatever their name",
        "the command-line tools' external delegate has no option for op packages: it takes code",
    ],
)
