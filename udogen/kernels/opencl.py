"""The OpenCL that Halide writes, changed so that each tensor is read and written in its stored type.

Halide 21 has no API for loads and stores of device code, nor for the arguments of its kernels: both are found in its
text, here only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from udogen.kernels.request import Launch, TensorPort

_KERNEL = re.compile(
    r"^__kernel void (?P<name>\w+)\(\n?(?P<parameters>[^)]*)\)\n\{\n(?P<body>.*?)^\} // kernel", re.M | re.S
)
_LETTERS = {
    "char": "c", "uchar": "C", "unsigned char": "C", "short": "s", "ushort": "S", "unsigned short": "S", "int": "i",
    "uint": "I", "unsigned int": "I", "long": "l", "ulong": "L", "unsigned long": "L", "float": "f",
}  # fmt: skip


class NotOnGpuError(Exception):
    """Why a kernel does not run on a GPU."""


def launches(text: str, function: str, tensors: Mapping[str, TensorPort]) -> list[Launch]:
    """The kernels of a function in Halide's text, each with its own text; `tensors` has their names in Halide."""
    kernels = [match for match in _KERNEL.finditer(text) if match["name"] != "_at_least_one_kernel"]
    if not kernels:
        raise NotOnGpuError("its schedule gives nothing to the GPU")
    head = text[: text.index("__kernel void _at_least_one_kernel")]
    by_name = {f"_{name.replace('$', '__')}": port for name, port in tensors.items()}
    made = []
    for number, match in enumerate(kernels):
        name = f"{function}_{number}"
        parameters, letters = _parameters(match["parameters"], by_name)
        own = f"{head}__kernel void {name}({parameters}) {{\n{_body(match['body'], by_name)}}}\n"
        made.append(Launch(function, match["name"], name, letters, own))
    return made


def _parameters(text: str, tensors: dict[str, TensorPort]) -> tuple[str, str]:
    """The parameters of a kernel, and a letter for each."""
    parameters, letters = [], ""
    for parameter in (part.strip() for part in text.split(",")):
        kind, name = parameter.rsplit(None, 1)
        if name in tensors:
            port = tensors[name]
            parameters.append(f"{'OUTPUT' if port.is_output else 'INPUT'}({port.opencl})")
            letters += "b"
        elif kind.startswith("__address_space_"):
            parameters.append(f"__global {kind.split(None, 1)[1]} {name}")
            letters += "b"
        elif kind.startswith("__local"):
            parameters.append(parameter)
            letters += "M"
        else:
            number = kind.removeprefix("const ")
            if number not in _LETTERS:
                raise NotOnGpuError(f"a kernel has a parameter of the type {number}")
            parameters.append(parameter)
            letters += _LETTERS[number]
    return ", ".join(parameters), letters


def _body(text: str, tensors: dict[str, TensorPort]) -> str:
    """The body of a kernel, with tensors accessed by the macros that every .cl file of a package uses."""
    for name, port in tensors.items():
        element = rf"\b{name}\[([^\[\]]*)\]"
        text = re.sub(rf"^(\s*){element} = (.*);$", rf"\1STORE({port.opencl}, \2, \3);", text, flags=re.MULTILINE)
        if port.is_output and re.search(element, text):
            raise NotOnGpuError(f"it reads its output `{port.name}`")
        text = re.sub(element, rf"LOAD({port.opencl}, \1)", text)
        if re.search(rf"\b{name}\b", text):
            raise NotOnGpuError(f"its schedule makes vectors of `{port.name}`, which may be stored in many ways")
    return text
