"""ExecuTorch's Qualcomm backend."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from udogen.clients import rules
from udogen.clients.client import Client, Part, Rule
from udogen.clients.package import Package
from udogen.clients.programs.parts import device_parts
from udogen.clients.programs.pc import host_library, no_host_library
from udogen.clients.quoting import block, python


class Info(NamedTuple):
    """One QnnExecuTorchOpPackageInfo."""

    package: Package
    op: str
    path: str
    target: str
    platform: str


def _no_texts(packages: Sequence[Package]) -> Iterator[str]:
    for package in packages:
        for op in package.models:
            for param in op.params:
                if op.name in package.ops and param.mandatory and "STRING" in {each.name for each in param.datatypes}:
                    yield f"parameter {param.name} of op {op.name} is a STRING"


def _lists(packages: Sequence[Package]) -> Iterator[str]:
    for package in packages:
        for op in package.models:
            for param in op.params:
                if op.name in package.ops and param.mandatory and not param.is_scalar:
                    yield f"parameter {param.name} of op {op.name} is a tensor"


def infos(packages: Sequence[Package]) -> Iterator[Info]:
    """What ExecuTorch is told: for each op the library that prepares it on a PC, then those of the device."""
    for package in packages:
        for op in package.ops:
            host = host_library(package)
            if host is not None:
                yield Info(package, op, str(host), "CPU", "X86_64")
            if package.place.device:
                # By full path, the Hexagon one too: so does ExecuTorch's own example.
                for library in package.libraries:
                    yield Info(package, op, f"{package.folder}/{library.name}", library.target, "AARCH64_ANDROID")


def torch_name(package: Package, op: str) -> str:
    """The operator of PyTorch that we take to stand for an op."""
    return f"{_snake(package.name)}.{_snake(op)}.default"


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _tell(packages: Sequence[Package]) -> Iterator[Part]:
    rows = "\n".join(
        f"                    QnnExecuTorchOpPackageInfo(\n"
        f"                        op_package_name={python(info.package.name)},\n"
        f"                        op_package_path={python(info.path)},\n"
        f"                        interface_provider={python(info.package.provider)},\n"
        f"                        target=QnnExecuTorchOpPackageTarget.{info.target},\n"
        f"                        custom_op_name={python(torch_name(info.package, info.op))},\n"
        f"                        qnn_op_type_name={python(info.op)},\n"
        f"                        platform=QnnExecuTorchOpPackagePlatform.{info.platform},\n"
        f"                    ),"
        for info in infos(packages)
    )
    yield Part(
        "python",
        "python",
        block(f"""
            from executorch.backends.qualcomm.serialization.qc_schema import (
                QnnExecuTorchOpPackageInfo,
                QnnExecuTorchOpPackageOptions,
                QnnExecuTorchOpPackagePlatform,
                QnnExecuTorchOpPackageTarget,
            )

            op_package_options = QnnExecuTorchOpPackageOptions(
                op_package_infos=[
{rows}
                ]
            )
            # custom_op_name is str() of the operator in your model; pass op_package_options to
            # build_executorch_binary, or to generate_qnn_executorch_compiler_spec.
        """),
    )
    yield from _builder(packages)
    yield from device_parts(packages)


def _builder(packages: Sequence[Package]) -> Iterator[Part]:
    """The newer interface, which reads the config; it takes one package."""
    if len(packages) != 1 or packages[0].config is None:
        return
    package = packages[0]
    ops = ", ".join(f"{python(op)}: torch.ops.{torch_name(package, op)}" for op in package.ops)
    calls = "\n".join(
        f"            builder.register_implementation(\n"
        f"                target=QnnExecuTorchOpPackageTarget.{target},\n"
        f"                platform=QnnExecuTorchOpPackagePlatform.{platform},\n"
        f"                op_package_path={python(path)},\n"
        f"            )"
        for target, platform, path in dict.fromkeys((each.target, each.platform, each.path) for each in infos(packages))
    )
    yield Part(
        "builder",
        "python",
        block(f"""
            import torch
            from executorch.backends.qualcomm.custom_op.interface import QnnCustomOpPackageBuilder
            from executorch.backends.qualcomm.serialization.qc_schema import (
                QnnExecuTorchOpPackagePlatform,
                QnnExecuTorchOpPackageTarget,
            )

            builder = QnnCustomOpPackageBuilder(
                xml_path={python(str(package.config.resolve() if package.config else ""))},
                torch_op_name_map={{{ops}}},
                interface_provider={python(package.provider)},
            )
{calls}
            op_package_options = builder.get_op_package_options()
        """),
    )


CLIENT = Client(
    "executorch",
    "ExecuTorch",
    "ExecuTorch 1.5.1, backends/qualcomm: qc_schema.py, custom_op/interface.py, op_custom_op.py, QnnBackendCommon.cpp",
    (
        rules.OPS,
        rules.ONE_PLACE,
        rules.only_backends("htp", consequence="its op packages have the targets CPU and HTP of the HTP backend alone"),
        rules.not_linux_devices(
            "it knows the platforms X86_64 and AARCH64_ANDROID; elsewhere it skips every package, and goes on"
        ),
        Rule(
            "prepared-on-a-pc",
            no_host_library,
            "models are lowered on a PC: without its library there the op is not delegated",
            "build it: udogen build htp_x86 -C DIR",
        ),
        rules.ops_once("the first one wins"),
        Rule("attributes", _no_texts, "an argument that is a text cannot be lowered", "make it a number, or an input"),
        Rule(
            "lists",
            _lists,
            "it writes a list as numbers of 64 bits, and says that they have 32: the op reads every other one as 0",
            "make it an input, or scalars",
        ),
    ),
    lambda packages: list(_tell(packages)),
    lambda packages: [
        "a failed registration is logged, not raised: read the log with `udogen explain LOG`",
        "inputs are the tensor arguments of the torch operator in order, parameters its others: by order, not by name",
        f"{torch_name(packages[0], packages[0].ops[0])} is a name of ours: put your operator's in its place",
        "custom_op.interface imports Qualcomm's generator; `python -m udogen.compat.qti YOUR_PROGRAM.py` brings ours",
        "udogen.clients.executorch.op_package_options(packages, {op: torch operator}) makes and checks the options",
    ],
)
