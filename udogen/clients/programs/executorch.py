"""ExecuTorch's Qualcomm backend."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from udogen.clients import rules
from udogen.clients.client import Client, Snippet
from udogen.clients.device import device_snippets
from udogen.clients.package import Package
from udogen.clients.quoting import block, python


class Info(NamedTuple):
    """One QnnExecuTorchOpPackageInfo."""

    package: Package
    op: str
    path: str
    target: str
    platform: str


def infos(packages: Sequence[Package]) -> Iterator[Info]:
    """For each op, the library that prepares it on a PC, then the libraries on the device."""
    for package in packages:
        for op in package.ops:
            if package.host_library is not None:
                yield Info(package, op, str(package.host_library), "CPU", "X86_64")
            if package.platform.is_device:
                # The Hexagon library also has its full path, as in ExecuTorch's own example.
                for library in package.libraries:
                    yield Info(package, op, f"{package.folder}/{library.name}", library.target, "AARCH64_ANDROID")


def torch_name(package: Package, op: str) -> str:
    """The PyTorch operator that an op is assumed to implement."""
    return f"{_snake(package.name)}.{_snake(op)}.default"


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _snippets(packages: Sequence[Package]) -> Iterator[Snippet]:
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
    yield Snippet(
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
    yield from device_snippets(packages)


def _builder(packages: Sequence[Package]) -> Iterator[Snippet]:
    """The newer interface, which reads the config and accepts one package."""
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
    yield Snippet(
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
            lambda param: "is a STRING" if "STRING" in {each.name for each in param.datatypes} else "",
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
    _snippets,
    lambda packages: [
        "a failed registration is logged, not raised: read the log with `udogen explain LOG`",
        "tensor arguments of the torch operator are inputs, its other arguments parameters: by order, not by name",
        f"{torch_name(packages[0], packages[0].ops[0])} is a placeholder: use the name of your operator",
        "custom_op.interface needs Qualcomm's generator; `python -m udogen.compat.qti YOUR_PROGRAM.py` replaces it",
    ],
)
