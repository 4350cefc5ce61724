"""Random kernels in Python in four places, and integers that Halide alone compiles wrongly for Hexagon."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import udogen
from tests.kernels.random_kernels import NUMPY, OUTPUTS, PLACES, Kernels, Making, config, definition, write
from tests.kernels.random_sums import Sums
from tests.making import need_opencl, need_packets, need_runtime

pytest.importorskip("halide", reason="pip install '.[kernels]'")

COUNT = 100  # `python -m tests.kernels.random_kernels 1000` runs more
SUMS = 24  # `python -m tests.kernels.random_sums 200` runs more

# In Halide, and in numpy; A and B are elements as INT_32.
SHIFTS = [
    ("(A + B) >> 1", "(a + b) >> 1"),
    ("(A - B) / 2 + B % -5", "(a - b) // 2 + b % 5"),
    ("(3 * A + 5 * B + 4) >> 3", "(3 * a + 5 * b + 4) >> 3"),
    ("A / -4", "-(a // 4)"),
]
NARROWED = [
    ("hl.u8((A + B) >> 1)", "wrap((a + b) >> 1, 'u8')"),
    ("hl.rounding_shift_right(A - B, hl.i32(2))", "(a - b + 2) >> 2"),
]
PRODUCTS = [
    ("hl.u16(A) * hl.u16(B)", "wrap(a * b, 'u16')"),
    ("hl.i8(A) * hl.i8(B)", "wrap(a * b, 'i8')"),
    ("7 * hl.u16(A)", "wrap(7 * a, 'u16')"),
]
SHORTENED = [("hl.i16(A >> 4)", "wrap(a >> 4, 'i16')"), ("hl.u8_sat(A / 16)", "np.clip(a // 16, 0, 255)")]
TO_BYTES = [
    (f"hl.{kind}({number} >> {n})", f"wrap({number.lower()} >> {n}, '{kind}')")
    for kind in ("u8", "i8")
    for number, n in (("A", 1), ("B", 7))
]
OF_BYTES = [
    ("hl.u8(A) * hl.u8(B)", "wrap(a * b, 'u8')"),
    ("hl.i32(hl.u8(A) / 7) - hl.i32(hl.i8(B) % -7)", "wrap(a, 'u8') // 7 - wrap(b, 'i8') % 7"),
    ("hl.i32(hl.u8(A)) * hl.i32(hl.u8(B)) - A", "wrap(a, 'u8') * wrap(b, 'u8') - a"),
]
OF_UNSIGNED = [  # by functions that are imported by name
    ("saturating_cast(hl.Int(8), hl.u16(A) + hl.u16(A))", "np.minimum(2 * a & 65535, 127)"),
    ("i8_sat(hl.u16(B))", "np.minimum(b, 127)"),
    ("i16_sat(hl.u16(A) + hl.u16(B))", "np.minimum(a + b & 65535, 32767)"),
    ("i16_sat(hl.u32(A) * hl.u32(B))", "np.minimum(a * b, 32767)"),
]
FAR = [
    ("hl.u8(hl.i16(A >> 19))", "wrap(a >> 19, 'u8')"),
    ("hl.u8_sat(A >> 20)", "np.clip(a >> 20, 0, 255)"),
    ("hl.u8_sat(hl.i16(A) >> 9)", "np.maximum(wrap(a, 'i16') >> 9, 0)"),
]
# Bits that a narrow number has lost do not come back where it is widened.
LEFT = {
    kind: [
        row
        for n in (1, bits // 2, bits - 1)
        for row in (
            (f"hl.{kind}(A) << {n}", f"wrap(a << {n}, '{kind}')"),
            (f"hl.i32((hl.{kind}(A) - hl.{kind}(A + B)) << {n}) * 3 - B", f"wrap(-b << {n}, '{kind}') * 3 - b"),
        )
    ]
    + [(f"hl.{kind}(A) << hl.{kind}(B & {bits - 1})", f"wrap(a << (b & {bits - 1}), '{kind}')")]
    + [(f"hl.{kind}(A) + hl.{kind}(A)", f"wrap(2 * a, '{kind}')")]
    for kind, bits in (("u8", 8), ("i8", 8), ("u16", 16), ("i16", 16))
}
KEPT = [  # in memory, where Halide may put the elements of a vector in another order
    ("hl.u8(kept(A + 7))", "wrap(a + 7, 'u8')"),
    ("hl.u8_sat(kept(A - B) >> 4)", "np.clip(a - b >> 4, 0, 255)"),
    (
        "hl.u8(kept(scan(r := hl.RDom([(0, a.extent(1))]), hl.i32(0), lambda n: n + hl.i32(a[i, r.x]))[j + 1] >> 8))",
        "wrap(np.cumsum(np.atleast_2d(a), 0).reshape(a.shape) >> 8, 'u8')",
    ),
]
# Bytes in vectors that have as many elements as those of 16 bits.
DIVIDED = [
    ("hl.u8(A) % 3", "wrap(a, 'u8') % 3"),
    ("hl.u8_sat(A) % 3", "np.minimum(a, 255) % 3"),
    ("hl.i8(A) % 5", "wrap(a, 'i8') % 5"),
    ("hl.u8(A) / 7", "wrap(a, 'u8') // 7"),
    ("hl.i8_sat(A) / 3", "np.minimum(a, 127) // 3"),
]
# The type of the outputs, and its cast, of those that are not INT_32.
RESULTS = dict.fromkeys(("Kept", "Far"), ("UINT_8", "hl.u8")) | {"SaturatedWords": ("UINT_16", "hl.u16")}
OPS = {  # the type of the inputs, the view, the indices, the outputs: all have vectors of the same length
    "Shifts": ("UINT_8", "Flat", "i", SHIFTS[:2]),
    "Sums": ("UINT_8", "Flat", "i", SHIFTS[2:]),
    "Axes": ("UINT_8", "Whole(2)", "i, j", SHIFTS[:1]),
    "Narrowed": ("UINT_8", "Flat", "i", NARROWED),
    "Saturated": ("UINT_8", "Flat", "i", [("hl.i8_sat(hl.u16(A) + hl.u16(B))", "np.minimum(a + b, 127)")]),
    "SaturatedWords": ("UINT_16", "Flat", "i", OF_UNSIGNED),
    "Words": ("INT_32", "Flat", "i", PRODUCTS),
    "Bytes": ("INT_32", "Flat", "i", OF_BYTES),
    "ToBytes": ("INT_32", "Flat", "i", TO_BYTES),
    "Shortened": ("INT_32", "Flat", "i", SHORTENED),
    "Far": ("INT_32", "Flat", "i", FAR),
    "Kept": ("UINT_16", "Whole(2)", "i, j", KEPT),
    "Divided": ("UINT_16", "Flat", "i", DIVIDED),
    **{
        f"Left_{kind}_{dtype}": (dtype, "Flat", "i", rows)
        for kind, rows in LEFT.items()
        for dtype in ("UINT_8", "UINT_16", "INT_32")
        if dtype != "UINT_8" or kind[1:] == "8"
    },
}


def test_integers_of_other_widths_on_hexagon(tmp_path: Path) -> None:
    need_packets()
    (tmp_path / "kernels").mkdir()
    ops, references, cases = [], [], ['config = "Widths.xml"', 'kernels = "kernels"']
    for op, (dtype, view, indices, rows) in OPS.items():
        names = ["a", "b", *(f"y{n}" for n in range(len(rows)))]
        result, cast = RESULTS.get(op, ("INT_32", "hl.i32"))
        ops.append(definition(op, dict.fromkeys("ab", dtype), dict.fromkeys(names[2:], result)))
        lines = [f"    {index} = hl.Var('{index}')" for index in indices.split(", ")]
        lines += [f"    {each} = hl.i32({each.lower()}[{indices}])" for each in "AB"]
        lines += [f"    y{n}[{indices}] = {cast}({halide})" for n, (halide, _) in enumerate(rows)]
        head = f"def {op}({', '.join(f'{name}: {view}' for name in names)}):"
        lines.insert(
            0, f"    def kept(x):\n        m = scratch()\n        m[{indices}] = x\n        return m[{indices}]"
        )
        imports = "import halide as hl\nfrom halide import i8_sat, i16_sat, saturating_cast\n"
        imports += "from udogen.kernels import Flat, Whole\nfrom udogen.kernels.math import scan, scratch\n"
        (tmp_path / "kernels" / f"{op}.py").write_text("\n".join([imports, head, *lines]))
        values = ", ".join(f"({numpy})" for _, numpy in rows)
        references.append(f"def {op}(a, b):\n    a, b = a.astype(np.int64), b.astype(np.int64)\n    return {values}\n")
        cases.append(
            f'[[op]]\nname = "{op}"\nreference = "reference.py:{op}"\n[[op.case]]\n'
            'shape = ["3", "127", "128", "1000", "3x130"]'
        )
    (tmp_path / "Widths.xml").write_text(config("Random", ops))
    (tmp_path / "reference.py").write_text(NUMPY + "\n\n".join(references))
    (tmp_path / "op_tests.toml").write_text("\n".join(cases))
    done = udogen("test", tmp_path, "--backend", "hexagon")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{5 * len(OPS)} passed" in done.stdout


@pytest.mark.parametrize(("made", "ops"), [(Kernels, COUNT // OUTPUTS), (Sums, SUMS)])
def test_random_kernels(tmp_path: Path, made: Making, ops: int) -> None:
    for place in ("cpu", "htp"):
        need_runtime(place)
    need_opencl()
    write(tmp_path / "random", 1, ops, made)
    done = udogen("test", tmp_path / "random", *(part for each in PLACES for part in ("--backend", each)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed") > ops
