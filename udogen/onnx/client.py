"""ONNX Runtime's QNN execution provider."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from udogen import backends
from udogen.clients import rules
from udogen.clients.client import Client, Snippet
from udogen.clients.package import Package
from udogen.clients.snippets import Literal, block, device_snippets
from udogen.configs.load import load
from udogen.opdef.model import Tensor
from udogen.opdef.names import cpp_string

_FALLS_BACK = "ONNX Runtime skips the entry with a warning, and the op falls back to its own CPU without an error"
# Session option that forbids a silent fallback (True), or shows it (False): if it is forbidden, QNN's CPU backend does
# not start (measured).
_ENTRY = {True: "session.disable_cpu_ep_fallback", False: "session.record_ep_graph_assignment_info"}
_WHY = {
    True: "Without this, an op that QNN does not take silently runs on ONNX Runtime's own CPU.",
    False: "An op that QNN does not take silently runs on ONNX Runtime's own CPU: this records where each node is.",
}


def _one_op(package: Package) -> str:
    ops, count = ", ".join(package.ops), len(package.ops)
    return f"package {package.name} has {count} ops ({ops}); it takes one op per package" if count > 1 else ""


def attribute_fault(param: Tensor) -> str:
    """Why an ONNX attribute cannot carry a parameter; empty if it can."""
    types = {datatype.name for datatype in param.datatypes}
    if "STRING" in types:
        return "is a STRING"
    if not types & {"FLOAT_32", "BACKEND_SPECIFIC"} and not any(datatype.integral for datatype in param.datatypes):
        return f"is {' or '.join(sorted(types))}; attributes arrive as FLOAT_32 and INT_32"
    if not param.is_scalar and param.rank.ranks and 1 not in param.rank.ranks:
        return f"has rank {param.rank}; attributes are scalars and lists"
    return ""


def entries(packages: Sequence[Package]) -> str:
    """The value of the provider option `op_packages`."""
    return ",".join(
        ":".join([op, library.path, package.provider, *([target] if target else [])])
        for package in packages
        for library in package.libraries
        for op in package.ops
        # Without a target the provider passes "", which libQnnHtp refuses (4003), though not NULL: measured on x86.
        for target in [library.target or ("CPU" if backends.ALL[package.backend].two_halves else "")]
    )


def custom_op_domains(packages: Sequence[Package]) -> str:
    """The value of ORT_QNN_CUSTOM_OP_DOMAINS, read by wheels since 2.7.0: `domain:Op,Op;domain:Op`."""
    domains: dict[str, list[str]] = {}
    for package in packages:
        loaded = load(package.built.configs)[0] if package.built is not None and package.built.configs else ()
        domain = next(
            (config.domain for config in loaded if config.name == package.name and config.domain), package.name
        )
        domains.setdefault(domain, []).extend(package.ops)
    return ";".join(f"{domain}:{','.join(ops)}" for domain, ops in domains.items())


def _snippets(packages: Sequence[Package]) -> Iterator[Snippet]:
    first = packages[0]
    backend = backends.RUNTIMES[first.backend].library
    value = entries(packages)
    yield Snippet("option", "text", f"op_packages={value}")
    yield Snippet("domains", "sh", f"export ORT_QNN_CUSTOM_OP_DOMAINS={shlex.quote(custom_op_domains(packages))}")
    strict = backends.RUNTIMES[first.backend].strict_in_ort
    show = "print([part.ep_name for part in session.get_provider_graph_assignment_info()])"
    # On this machine the backend is in the wheel; on a device the loader finds its name in LD_LIBRARY_PATH.
    where = Literal(backend).python if first.platform.is_device else f"onnxruntime_qnn.get_qnn_{first.backend}_path()"
    yield Snippet(
        "python",
        "python",
        block(f"""
            import onnxruntime
            import onnxruntime_qnn

            onnxruntime.register_execution_provider_library("QNN", onnxruntime_qnn.get_library_path())
            device = next(each for each in onnxruntime.get_ep_devices() if each.ep_name == "QNN")
            options = onnxruntime.SessionOptions()
            # {_WHY[strict]}
            options.add_session_config_entry({Literal(_ENTRY[strict]).python}, "1")
            options.add_provider_for_devices([device], {{
                "backend_path": {where},
                "op_packages": {Literal(value).python},
            }})
            session = onnxruntime.InferenceSession("model.onnx", options)
            # Without this, after an error of QNN run() computes the model on that CPU, too.
            session.disable_fallback()
            {"" if strict else show}
        """),
    )
    yield Snippet(
        "cpp",
        "cpp",
        block(f"""
            // After env.RegisterExecutionProviderLibrary("QNN", ORT_TSTR("libonnxruntime_providers_qnn.so"));
            // `device` is the one of env.GetEpDevices() whose EpName() is "QNN".
            Ort::SessionOptions options;
            // {_WHY[strict]}
            options.AddConfigEntry({cpp_string(_ENTRY[strict])}, "1");
            options.AppendExecutionProvider_V2(env, {{device}}, {{
                {{"backend_path", {cpp_string(backend)}}},
                {{"op_packages", {cpp_string(value)}}},
            }});
        """),
    )
    yield from device_snippets(packages)


SCHEMA_NEEDED = "a custom op needs a schema: `udogen onnx schema MODEL -o OUT` adds one to the model"
DOMAINS = (
    "onnxruntime-qnn 2.7.0 and later need no schema for the ops that ORT_QNN_CUSTOM_OP_DOMAINS names by the domain of "
    "the model's nodes (the part `domains`); their outputs still need value_info, and a model may have both"
)


def _notes(packages: Sequence[Package]) -> Iterator[str]:
    ops = ", ".join(op for package in packages for op in package.ops)
    yield f"it matches nodes by op type only ({ops}), in any domain: a built-in op of that name too"
    yield SCHEMA_NEEDED
    yield DOMAINS
    for op, param in rules.params_of(packages, mandatory=False):
        if why := attribute_fault(param):
            yield f"leave out the optional parameter {param.name} of {op.name}: it {why}"


CLIENT = Client(
    "ort",
    "ONNX Runtime",
    "onnxruntime-qnn 2.0.0, qnn_execution_provider.cc, qnn_backend_manager.h, udo_fusion.cc; run with 2.3.0",
    (
        rules.OPS,
        rules.ONE_PLATFORM,
        rules.no_characters(":,", consequence=_FALLS_BACK),
        rules.standard_provider(
            "it takes the symbol without InterfaceProvider as the package's name, and no node finds the package (4005)"
        ),
        rules.each_package(
            "one-op",
            _one_op,
            "each entry registers the package again; the second fails with 4007, which disables the whole provider",
            "choose the op of your model with --op, or generate a package for each op",
        ),
        rules.ops_once("the last entry of an op wins"),
        rules.each_param(
            "attributes",
            attribute_fault,
            "a STRING attribute ends the process; other types are refused by the op (3110), and the node falls back",
            "make it an input, a FLOAT_32 or an integer",
        ),
    ),
    _snippets,
    _notes,
)
