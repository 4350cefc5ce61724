"""The registration library of a UDO package: whatever compiles, its headers may be those of the SNPE SDK."""

from __future__ import annotations

from pathlib import Path

from udogen.build.toolchains.choice import Choice
from udogen.build.tools import Environment
from udogen.errors import ToolMissing

_HEADER = Path("SnpeUdo", "UdoReg.h")
# Where the header is below what the variables name, in SDKs of different years; as in the package's Makefile.
_PLACES = {"SNPE_UDO_ROOT": ("", "..", "include"), "SNPE_ROOT": ("include/SNPE", "include", "share/SnpeUdo/include")}


def choose(env: Environment, found: Choice, *, own_headers: bool) -> Choice:
    """What builds a registration library, where `found` would build any other; `own_headers` takes udogen's."""
    named = {"SNPE_UDO_ROOT": env.snpe_udo_root, "SNPE_ROOT": env.snpe_root}
    variable = "" if own_headers else next((name for name, value in named.items() if value), "")
    empty = tuple((name, "") for name in named if name != variable)
    if not variable:
        # Empty variables on make's command line win over those of the environment, and over the config's.
        given = empty if own_headers else ()
        return found._replace(variables=(*found.variables, *given))
    root = Path(named[variable])
    if not any((root / place / _HEADER).is_file() for place in _PLACES[variable]):
        raise ToolMissing(
            f"{variable} is {root}, but there is no {_HEADER} in it",
            hint="set it to the folder of the SnpeUdo headers, or unset it to use udogen's own headers",
        )
    variables = (*found.variables, (variable, str(root)), *empty)
    return found._replace(title=f"{found.title.partition(',')[0]}, SnpeUdo headers of {root}", variables=variables)
