# The public names; `__init__.py` reads them from here.
from udogen.build.make import build_package as build_package
from udogen.build.package import PackageLibrary as PackageLibrary
from udogen.build.package import open_packages as open_packages
from udogen.configs.load import load
from udogen.errors import BuildFailed as BuildFailed
from udogen.errors import RunFailed as RunFailed
from udogen.errors import ToolMissing as ToolMissing
from udogen.errors import UdogenError as UdogenError
from udogen.errors import UsageError as UsageError
from udogen.errors import VerificationFailed as VerificationFailed
from udogen.findings import ConfigError as ConfigError
from udogen.generate.pipeline import GenerateOptions as GenerateOptions
from udogen.generate.pipeline import generate
from udogen.generate.pipeline import make_package as make_package
from udogen.resources import qnn_headers as qnn_headers
from udogen.runtime.contexts.builder import GraphBuilder as GraphBuilder
from udogen.runtime.models.model import Model as Model
from udogen.verdict import Verdict as Verdict
from udogen.verify.cases import Case as Case
from udogen.verify.cases import Example as Example
from udogen.verify.kernel_function import kernel as kernel
from udogen.verify.options import TestOptions as TestOptions
from udogen.verify.report.page import write_report as write_report
from udogen.verify.results import Outcome as Outcome
from udogen.verify.runner import run_cases as run_cases
from udogen.verify.test_files.expand import load_examples as load_examples

__version__: str
generate_packages = generate
load_configs = load
