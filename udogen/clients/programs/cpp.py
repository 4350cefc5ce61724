"""Your own programs in C++: the QNN API, or SNPE's for packages in its layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from udogen import backends
from udogen.clients import rules
from udogen.clients.client import Client, Snippet
from udogen.clients.device import device_snippets
from udogen.clients.package import Package
from udogen.clients.programs import snpe
from udogen.clients.quoting import block
from udogen.opdef.names import cpp_string


def _snippets(packages: Sequence[Package]) -> Iterator[Snippet]:
    if all(package.registration is not None for package in packages):
        yield from _snpe_snippets(packages)
        return
    rows = "\n".join(
        f"                {{{cpp_string(library.path)}, {cpp_string(package.provider)}, "
        f"{cpp_string(library.target) if library.target else 'nullptr'}}},"
        for package in packages
        for library in package.libraries
    )
    yield Snippet(
        "cpp",
        "cpp",
        block(f"""
            #include "QnnInterface.h"

            // Once for each backend handle, before contexts are made or restored.{_opening(packages)}
            // `register_one` is backendRegisterOpPackage of the interface.
            Qnn_ErrorHandle_t register_op_packages(QnnBackend_RegisterOpPackageFn_t register_one,
                                                   Qnn_BackendHandle_t backend) {{
              const struct {{
                const char* path;
                const char* provider;
                const char* target;
              }} packages[] = {{
{rows}
              }};
              for (const auto& each : packages) {{
                const Qnn_ErrorHandle_t code = register_one(backend, each.path, each.provider, each.target);
                if (code != QNN_SUCCESS) {{
                  return code;  // see `udogen explain`
                }}
              }}
              return QNN_SUCCESS;
            }}
        """),
    )
    yield from device_snippets(packages)


def _opening(packages: Sequence[Package]) -> str:
    """How the backend must be opened."""
    backend = backends.RUNTIMES[packages[0].backend].library
    needed = f"{backend} must be opened with dlopen(…, RTLD_NOW | RTLD_GLOBAL)."
    return f"\n            // {needed}" if backends.ALL[packages[0].backend].calls_runtime else ""


def _snpe_snippets(packages: Sequence[Package]) -> Iterator[Snippet]:
    rows = "\n".join(f"                  {cpp_string(snpe.registration_path(package))}," for package in packages)
    yield Snippet(
        "cpp",
        "cpp",
        block(f"""
            #include <initializer_list>

            #include "SNPE/SNPEFactory.hpp"

            // Once in each process, before the network is built.
            bool add_op_packages() {{
              for (const char* path : {{
{rows}
              }}) {{
                if (!zdl::SNPE::SNPEFactory::addOpPackage(path)) {{
                  return false;
                }}
              }}
              return true;
            }}
        """),
    )
    yield from snpe.device_setup(packages)


CLIENT = Client(
    "cpp",
    "C++",
    "QnnBackend.h of core API 2.36 (SDK 2.47); SNPEFactory.hpp of SNPE 2.25",
    (rules.ONE_PLATFORM, snpe.BUILT),
    _snippets,
)
