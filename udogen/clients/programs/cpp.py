"""Programs in C++ of one's own: the QNN API, or SNPE's for packages of its layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from udogen import backends
from udogen.clients import rules
from udogen.clients.client import Client, Part
from udogen.clients.package import Package
from udogen.clients.programs import snpe
from udogen.clients.programs.parts import device_parts
from udogen.clients.quoting import block, cpp


def _tell(packages: Sequence[Package]) -> Iterator[Part]:
    if all(package.registration is not None for package in packages):
        yield from _tell_snpe(packages)
        return
    rows = "\n".join(
        f"                {{{cpp(library.path)}, {cpp(package.provider)}, "
        f"{cpp(library.target) if library.target else 'nullptr'}}},"
        for package in packages
        for library in package.libraries
    )
    yield Part(
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
                  return code;  // `udogen explain` says what it means
                }}
              }}
              return QNN_SUCCESS;
            }}
        """),
    )
    yield from device_parts(packages)


def _opening(packages: Sequence[Package]) -> str:
    """How the backend must have been opened."""
    backend = backends.RUNTIMES[packages[0].backend].library
    needed = f"{backend} must have been opened with dlopen(…, RTLD_NOW | RTLD_GLOBAL)."
    return f"\n            // {needed}" if backends.ALL[packages[0].backend].calls_runtime else ""


def _tell_snpe(packages: Sequence[Package]) -> Iterator[Part]:
    rows = "\n".join(f"                  {cpp(snpe.registration_path(package))}," for package in packages)
    yield Part(
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
    (rules.ONE_PLACE, snpe.BUILT),
    lambda packages: list(_tell(packages)),
)
