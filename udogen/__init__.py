"""udogen: from one description of a custom operation to op packages for every Qualcomm backend.

The Python API of descriptions, packages, tests and errors; `udogen.runtime` has runtimes.  docs/python.md describes
every name.  A module is imported when one of its names is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is not imported: `import udogen` is to cost nothing
if TYPE_CHECKING:
    from udogen.build.make import build_package
    from udogen.build.package import PackageLibrary, open_packages
    from udogen.clients.ort import session as onnx_session
    from udogen.configs.load import load as load_configs
    from udogen.errors import BuildFailed, RunFailed, ToolMissing, UdogenError, UsageError, VerificationFailed
    from udogen.generate.pipeline import GenerateOptions, make_package
    from udogen.generate.pipeline import generate as generate_packages
    from udogen.opdef.problems import ConfigError
    from udogen.resources import qnn_headers
    from udogen.runtime.contexts.builder import GraphBuilder
    from udogen.runtime.models.model import Model
    from udogen.verify.cases import Case, Example
    from udogen.verify.options import TestOptions
    from udogen.verify.report.page import write_report
    from udogen.verify.results import Outcome
    from udogen.verify.runner import run_cases
    from udogen.verify.test_files.expand import load_examples

__version__ = "0.1.0"

# Name -> module, and the name there where it would be that of a subpackage here, or too short.
_PUBLIC = {
    "BuildFailed": "errors",
    "Case": "verify.cases",
    "ConfigError": "opdef.problems",
    "Example": "verify.cases",
    "Model": "runtime.models.model",
    "Outcome": "verify.results",
    "PackageLibrary": "build.package",
    "RunFailed": "errors",
    "TestOptions": "verify.options",
    "ToolMissing": "errors",
    "UdogenError": "errors",
    "UsageError": "errors",
    "VerificationFailed": "errors",
    "build_package": "build.make",
    "GenerateOptions": "generate.pipeline",
    "GraphBuilder": "runtime.contexts.builder",
    "generate_packages": "generate.pipeline:generate",
    "make_package": "generate.pipeline",
    "load_configs": "configs.load:load",
    "load_examples": "verify.test_files.expand",
    "onnx_session": "clients.ort:session",
    "open_packages": "build.package",
    "qnn_headers": "resources",
    "run_cases": "verify.runner",
    "write_report": "verify.report.page",
}


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, _, original = _PUBLIC[name].partition(":")
    found = globals()[name] = getattr(import_module(f"{__name__}.{module}"), original or name)
    return found


def __dir__() -> list[str]:
    return [*globals(), *__all__]


__all__ = [
    "BuildFailed",
    "Case",
    "ConfigError",
    "Example",
    "GenerateOptions",
    "GraphBuilder",
    "Model",
    "Outcome",
    "PackageLibrary",
    "RunFailed",
    "TestOptions",
    "ToolMissing",
    "UdogenError",
    "UsageError",
    "VerificationFailed",
    "build_package",
    "generate_packages",
    "load_configs",
    "load_examples",
    "make_package",
    "onnx_session",
    "open_packages",
    "qnn_headers",
    "run_cases",
    "write_report",
]
