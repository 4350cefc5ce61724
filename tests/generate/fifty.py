"""Configs with any number of ops."""

from __future__ import annotations

from pathlib import Path

from tests.opdef.texts import X, Y, collection, op, param

_KERNEL = """#include "ops/Op%(number)02d.hpp"

namespace ops::ManyOps::Op%(number)02d {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.x.size(); ++i) args.y[i] = args.x[i] + args.step;
  return udo::ok;
}

}  // namespace ops::ManyOps::Op%(number)02d
"""


def config(count: int) -> str:
    """Return an XML config of the package ManyOps with ops Op00, Op01 …; the default step of each is its number."""
    ops = (op(X + Y + param("step", default=str(number)), f"Op{number:02d}") for number in range(count))
    return collection("".join(ops), name="ManyOps")


def kernel(number: int) -> str:
    """Return a finished kernel of one of them."""
    return _KERNEL % {"number": number}


def project(folder: Path, count: int) -> None:
    """Write a folder for `udogen test`: the config Many.xml, kernels, and one case of each op."""
    (folder / "kernels").mkdir(parents=True)
    (folder / "Many.xml").write_text(config(count), "utf-8")
    tests = ['config = "Many.xml"', 'kernels = "kernels"']
    for number in range(count):
        (folder / "kernels" / f"Op{number:02d}.cpp").write_text(kernel(number), "utf-8")
        tests += ["[[op]]", f'name = "Op{number:02d}"', 'reference = "reference.py:add"', "[[op.case]]", 'shape = "8"']
    (folder / "op_tests.toml").write_text("\n".join(tests) + "\n", "utf-8")
    (folder / "reference.py").write_text("def add(x, step):\n    return x + step\n", "utf-8")
