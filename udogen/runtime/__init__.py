"""The Python API: runtimes, contexts and graphs in this process, memory, sessions.

Single ops in a child process are in `udogen.runtime.ops`, encodings in `udogen.runtime.quantization`.

Every name is described in docs/python.md and listed in `__init__.pyi`.  A module is imported when one of its names is
first used: restoring a context does not load the modules that run ops in a child, and running an op does not
load numpy.
"""

from __future__ import annotations

from udogen.public_names import lazy

__getattr__, __dir__ = lazy(__name__, __file__)
