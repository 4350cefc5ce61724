"""stub"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from udogen.generate.plan import PlannedFile, Source
from udogen.opdef.model import OpPackage


def files(
    package: OpPackage, by_backend: Mapping[str, OpPackage], source: Source, libraries: Sequence[tuple[str, str]]
) -> tuple[PlannedFile, ...]:
    return (
        PlannedFile(
            f"jni/src/reg/{package.name}RegLib.cpp",
            content=b'#include <cstdint>\nextern "C" __attribute__((visibility("default"))) int SnpeUdo_initRegLibrary() { return 0; }\n',
        ),
    )
