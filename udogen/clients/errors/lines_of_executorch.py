"""Lines that ExecuTorch and its Qualcomm backend log: what they mean, and why they come."""

from __future__ import annotations

from udogen.clients.errors import causes_of_clients as causes
from udogen.clients.errors.model import Cause, line

_ET = "measured: ExecuTorch 1.5.1"

ALL = (
    line(
        "et-registration",
        r"\[Qnn ExecuTorch\]:? *Failed to register op package:? *(?P<lib>[^,]*?) *, *error=(?P<code>\d+)",
        "ExecuTorch could not register {lib} ({code}), and goes on without it",
        *causes.of("qnn", 4005),
    ),
    line(
        "et-api-version",
        r"Q(?:nn|NN)(?: API| backend library)? version (?P<there>v?[\d.]+) is mismatched"
        r"(?:.*?supported version is (?P<least>v?[\d.]+\d))?",
        "the QNN library that was loaded has API version {there}; the program was built for another one ({least})",
        Cause(
            "libQnnHtp.so, or what goes with it, is of an older SDK than the one that the program was built with",
            "put the libraries of one SDK release beside the program, and push them all again",
            "pytorch/executorch #4998",
        ),
        Cause(
            "LD_LIBRARY_PATH finds a library of the system, or of another program, first",
            "name the folder of yours first; `udogen doctor` lists the runtimes that are found here",
            "pytorch/executorch #4998",
        ),
    ),
    line(
        "et-platform",
        r"Failed to detect the platform\. Only support x86_64 or android",
        "ExecuTorch registers op packages on x86-64 Linux and Android alone; all were skipped",
        Cause("this is Linux on ARM, or another system", "run it on Android", "pytorch/executorch #22659"),
    ),
    line(
        "et-generator",
        r"Failed to import QnnOpPackageGenerator",
        "ExecuTorch's custom-op interface reads the config with a module of Qualcomm's SDK, which is not there",
        Cause(
            "qti.aisw.op_package_generator is in no folder of Python's path",
            "start the program with `python -m udogen.compat.qti`, or put lib/python of the SDK on PYTHONPATH",
            _ET,
        ),
    ),
    line(
        "et-arguments",
        r"Number of inputs \((?P<given>\d+)\) mismatch the number of args \((?P<all>\d+)\)"
        r" in schema for the custom node \((?P<op>[^)]+)\)",
        "ExecuTorch leaves a node of {op} to other kernels: it has {given} of the operator's {all} arguments",
        Cause("the model leaves out an argument that has a default", "let the model give every argument", _ET),
        Cause("an argument is keyword-only", "put it before the `*` of the operator's schema", _ET),
    ),
    line(
        "et-no-package",
        r"Op package (?P<package>\S+) validator function not found",
        "package {package} is not registered, so its ops are left to other kernels",
        Cause("its registration failed", "look for a line of it before", _ET),
        Cause(
            "none of its rows is for this platform: lowering on a PC takes those of X86_64",
            "give also the library for x86-64: udogen.clients.executorch.op_package_options does",
            _ET,
        ),
        Cause("the options name the package otherwise than its library does", "take PackageName of its config", _ET),
    ),
    line(
        "et-variants",
        r"Missing out variants: (?P<ops>\{.*\})",
        "{ops} was not lowered to QNN, and ExecuTorch has no kernel for it either",
        Cause(
            "custom_op_name of the options is not the operator's whole name",
            "str() of the operator, with its overload: my_ops.leaky_relu.default",
            _ET,
        ),
        Cause(
            "the package was not registered, or QNN refused the node",
            "lower it with generate_qnn_executorch_compiler_spec(..., debug=True), and read that log",
            _ET,
        ),
    ),
    line(
        "soc-elsewhere",
        r"unknown custom config socModel 0\b",
        "the client wrote the processor where this libQnnHtp.so does not look for it: it was built for another SDK",
        Cause(
            "ExecuTorch 1.4 to 1.5 (SDK 2.37) with a library of SDK 2.47, 2.48, 2.50 or 2.51",
            "put the libQnnHtp.so of onnxruntime-qnn 2.5.0 (SDK 2.49) first in LD_LIBRARY_PATH, or that of SDK 2.37",
            "measured: ExecuTorch 1.5.1 with onnxruntime-qnn 2.4.0, 2.6.0 and 2.7.0",
        ),
    ),
)
