"""`qti.aisw.op_package_generator` without Qualcomm's SDK: `from qti.aisw… import QnnOpPackageGenerator` finds ours.

ExecuTorch's `backends.qualcomm.custom_op.interface` imports it to read a package's config.  In a program of your own:

    import udogen.compat.qti
    udogen.compat.qti.install()

and for a program that must not change: `python -m udogen.compat.qti script.py arguments…`.  Where the vendor's module
can be found it is used, whenever it appears on `sys.path`; `install(replace=True)` puts ours in its place.
"""

from __future__ import annotations

from udogen.compat.qti.finder import install, uninstall
from udogen.compat.qti.generator import OperatorInfo, PackageInfo, QnnOpPackageGenerator

__all__ = ["OperatorInfo", "PackageInfo", "QnnOpPackageGenerator", "install", "uninstall"]
