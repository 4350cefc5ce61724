"""Random kernels with sums of products, compared with numpy: `python -m tests.kernels.random_sums 200`.

Sizes are those around a tile.  Integers are exact; fixed point may differ by one step.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

from tests.kernels.random_kernels import PLACES, RANGES, definition, main, variables

DATATYPES = {
    "u8": "UINT_8", "i8": "INT_8", "u16": "UINT_16", "i16": "INT_16", "i32": "INT_32", "f32": "FLOAT_32",
    "uq8": "UFIXED_POINT_8", "iq8": "SFIXED_POINT_8", "uq16": "UFIXED_POINT_16", "iq16": "SFIXED_POINT_16",
}  # fmt: skip
TYPES = {"integers": ("u8", "u8", "u16", "i32"), "fixed": ("uq8", "uq8", "iq8", "uq16", "iq16"), "floats": ("f32",)}
ON_CPU = {"integers": ("u8", "i8", "i32"), "fixed": ("uq8",), "floats": ("f32",)}  # what its runtime passes to ops
# How integers are added: the type of factors, and their limit, so that sums fit in the type unless it wraps.
WAYS = {"i32": ("i32", 400), "minus": ("i32", 400), "u32": ("u32", 1 << 31), "sat": ("i64", 400_000), "": ("", 0)}
SIZES = {
    "M": (1, 3, 4, 5, 8, 32, 33), "K": (1, 3, 4, 5, 31, 64, 128, 129, 512), "N": (1, 3, 64, 65, 127, 128, 129, 256),
    "B": (1, 2, 3),
}  # fmt: skip
# Those that are not smaller than a tile.
FULL = {"M": (4, 5, 8, 32, 33), "K": (4, 64, 128, 512), "N": (64, 65, 128, 129, 256)}
IN_WORDS = {"KF": 4, "DF": 8}  # the shape of a factor -> products for each K
LONG = (16640, 33100)  # products of bytes whose sum may exceed 30 bits, and 32
MOST_PRODUCTS = 1 << 21  # of a case
CASES = 4


@dataclass(frozen=True)
class Form:
    """What is summed: the variables of the output, the domain, the indices of both factors, or of one; numpy; the
    shapes, in letters for sizes: I is the side of an image, W that of a window, P x Q an image of N x M windows."""

    variables: str
    domain: str
    a: str
    b: str
    numpy: str
    shapes: tuple[str, str, str]
    inner: str = ""  # the domain of sums that are added


_K = "(0, a.extent(0))"
_WINDOW = "(0, b.extent({})), (0, b.extent({}))"
_SAME = "hl.clamp(m + {} - W / 2, 0, a.extent(1) - 1), hl.clamp(h + {} - W / 2, 0, a.extent(2) - 1)"
FORMS = {
    "matmul": Form("n m", _K, "r.x, m", "n, r.x", "a @ b", ("MK", "KN", "MN")),
    "linear": Form("n m", _K, "r.x, m", "r.x, n", "a @ b.T", ("MK", "NK", "MN")),
    "batch": Form("n m i", _K, "r.x, m, i", "n, r.x, i", "a @ b", ("BMK", "BKN", "BMN")),
    "shared": Form("n m i", _K, "r.x, m, i", "n, r.x", "a @ b", ("BMK", "KN", "BMN")),
    "scores": Form(
        "n m i", _K, "r.x, m, i", "r.x, n, i", "a @ b.transpose(0, 2, 1)", ("BMK", "BNK", "BMN")
    ),
    "conv": Form("n m h i", f"{_K}, {_WINDOW.format(2, 3)}", "r.x, m * S + r.y, h * S + r.z, i", "n, r.x, r.y, r.z",
                 "conv(a, b, S)", ("BIIK", "WWKN", "BMMN")),
    "depthwise": Form("n m h i", _WINDOW.format(1, 2), "n, m * S + r.x, h * S + r.y, i", "n, r.x, r.y",
                      "depthwise(a, b, S)", ("BIIN", "WWN", "BMMN")),
    "transposed": Form("n m", "(0, b.extent(1))", "m, r.x", "n, r.x", "a.T @ b", ("KM", "KN", "MN")),
    "part": Form("n m", "(1, a.extent(0) - 1)", "r.x, m", "n, r.x", "a[:, 1:] @ b[1:]", ("MK", "KN", "MN")),
    "part of lines": Form("n m", "(1, a.extent(0) - 1)", "r.x, m", "r.x, n", "a[:, 1:] @ b.T[1:]", ("MK", "NK", "MN")),
    "every other": Form("n m", "(0, b.extent(1))", "r.x * 2, m", "n, r.x", "a[:, ::2] @ b", ("MD", "KN", "MN")),
    "window first": Form("n m h i", f"{_WINDOW.format(2, 3)}, {_K}", "r.z, m * S + r.x, h * S + r.y, i",
                         "n, r.z, r.x, r.y", "conv(a, b, S)", ("BIIK", "WWKN", "BMMN")),
    "middle": Form("n m", "(1, b.extent(1))", "r.x, m", "n, r.x - 1", "a[:, 1 : 1 + len(b)] @ b", ("MD", "KN", "MN")),
    "crossed": Form("n m", "(0, b.extent(0))", "m, r.x", "r.x, n", "a.T @ b.T", ("KM", "NK", "MN")),
    "reversed": Form("n m", _K, "a.extent(0) - 1 - r.x, m", "n, r.x", "a[:, ::-1] @ b", ("MK", "KN", "MN")),
    "same": Form("n m h i", f"{_K}, {_WINDOW.format(2, 3)}", f"r.x, {_SAME.format('r.y', 'r.z')}, i",
                 "n, r.x, r.y, r.z", "conv(padded(a, W), b, 1)", ("BMMK", "WWKN", "BMMN")),
    "same depthwise": Form("n m h i", _WINDOW.format(1, 2), f"n, {_SAME.format('r.x', 'r.y')}, i",
                           "n, r.x, r.y", "depthwise(padded(a, W), b, 1)", ("BMMN", "WWN", "BMMN")),
    "pool": Form("n m h i", "(0, W), (0, W)", "n, m * S + r.x, h * S + r.y, i", "",
                 "depthwise(a, np.ones((W, W, 1), int), S)", ("BIIN", "WWN", "BMMN")),
    "box": Form("n m", "(0, W), (0, W)", "n + r.x, m + r.y", "",
                "depthwise(a[None, :, :, None], np.ones((W, W, 1), int), 1)[0, ..., 0]", ("QP", "WWN", "MN")),
    "words": Form("n m", "(0, 4), (0, b.extent(1))", "4 * r.y + r.x, m", "4 * n + r.x, r.y", "a @ of_words(b)",
                  ("MX", "KF", "MN")),
    "blocks": Form("n m", "(0, b.extent(1) / 2)", "8 * r.x + 4 * q.y + q.x, m", "4 * n + q.x, 2 * r.x + q.y",
                   "a @ of_words(b)", ("MV", "DF", "MN"), "(0, 4), (0, 2)"),
    "lines": Form("m", _K, "r.x, m", "r.x, m", "(a * b).sum(-1)", ("MK", "MK", "M")),
    "columns": Form("n i", "(0, a.extent(1))", "n, r.x, i", "n, r.x", "(a * b).sum(1)", ("BKN", "KN", "BN")),
    "rows": Form("k", "", "k", "k", "(a * b).sum(-1, keepdims=True)", ("MK", "MK", "M1")),
}  # fmt: skip


def form_variables(form: str) -> list[str]:
    """The variables of an output."""
    return FORMS[form].variables.split()


class Sums:
    """An op with a random sum of products, for one place."""

    def __init__(self, name: str, dice: random.Random, place: str) -> None:
        self.name, self.dice, self.place = name, dice, place
        self.kind = dice.choice(("integers", "integers", "fixed", "fixed", "fixed", "floats"))
        fits = {"integers": lambda form: form != "rows", "fixed": lambda form: not FORMS[form].inner}
        self.form = dice.choice([form for form in FORMS if fits.get(self.kind, bool)(form)])
        a, b = (self.draw_type() for _ in "ab")
        self.types = {"a": a, "b": b if dice.random() < 0.5 else a}
        if not FORMS[self.form].b:
            del self.types["b"]
        if dice.random() < 0.3 and self.form != "rows":
            self.types["c"] = self.types["a"] if self.kind != "integers" else "i32"
        self.way = dice.choice(list(WAYS)[:-1]) if self.kind == "integers" else ""
        self.size = {"S": dice.choice((1, 1, 2)), "W": dice.choice((1, 3, 3))}
        self.low, self.high = dice.choice(((0, 1000), (-300, 70)))
        self.is_clamped, self.is_swapped = dice.random() < 0.3, dice.random() < 0.5
        self.shift = dice.randint(0, 8)
        self.results = [self.draw_type() for _ in range(1 + (dice.random() < 0.2))]
        is_exact = self.kind == "floats" or (self.kind == "integers" and self.way not in ("u32", "sat"))
        self.is_kept = is_exact and len(form_variables(self.form)) > 1 and dice.random() < 0.5

    def draw_type(self) -> str:
        """A type of this kind that the place has."""
        return self.dice.choice((ON_CPU if self.place == "cpu" else TYPES)[self.kind])

    def source(self) -> str:
        """The kernel."""
        form, tensors = FORMS[self.form], [*self.types, *(f"y{n}" for n in range(len(self.results)))]
        ranks = dict(zip("aby", (len(shape) for shape in form.shapes), strict=True), c=1)
        views = {tensor: "Rows" if self.form == "rows" else f"Whole({ranks[tensor[0]]})" for tensor in tensors}
        lines = [
            "import halide as hl",
            "from udogen.kernels import Rows, Whole",
            "from udogen.kernels.math import larger, maximum, scratch, smaller, total",
            "",
            f"def {self.name}({', '.join(f'{name}: {view}' for name, view in views.items())}):",
            *variables(self.name, form_variables(self.form)),
        ]
        if self.form == "rows":
            lines.append("    found = a.sum(lambda k: a[k] * b[k])")
        else:
            lines.append(f"    r = hl.RDom([{self.sized(form.domain)}])")
            lines += [f"    q = hl.RDom([{form.inner}])"] * bool(form.inner)
            lines.append(f"    found = {self.sized(self.summed())}")
        at = ", ".join(form_variables(self.form))
        if "c" in self.types:
            bias = self.factor("c", f"c[{form_variables(self.form)[0]}]", numpy=False)
            lines.append(f"    found = found + {bias}")
        if self.is_kept:  # in memory, with the largest of each row added
            lines.append("    kept, keys = scratch(), hl.RDom([(0, y0.extent(0))])")
            lines.append(f"    kept[{at}] = found")
            lines.append(
                f"    found = kept[{at}] + maximum(keys, kept[{', '.join(['keys.x', *form_variables(self.form)[1:]])}])"
            )
        if self.is_clamped and self.kind == "integers":
            lines.append(f"    found = hl.clamp(found, {self.low}, {self.high})")
        elif self.is_clamped:
            lines.append(f"    found = larger(smaller(found, {self.high / 8}), {self.low / 8})")
        lines += [f"    y{n}[{at}] = {self.stored(n, kind)}" for n, kind in enumerate(self.results)]
        return "\n".join(lines) + "\n"

    def summed(self) -> str:
        """The sum in Halide."""
        form = FORMS[self.form]
        places = {"a": form.a, "b": form.b}
        factors = [self.factor(name, f"{name}[{at}]", numpy=False) for name, at in places.items() if at]
        found = " * ".join(factors[::-1] if self.is_swapped else factors)
        found = f"total(r, {f'total(q, {found})' if form.inner else found})"
        least, most = RANGES["i32"]
        return {
            "u32": f"hl.i32({found})",
            "sat": f"hl.i32(hl.clamp({found}, hl.i64({least}), hl.i64({most}))) / 2",
        }.get(self.way, found)

    def sized(self, text: str) -> str:
        """An expression with the numbers of the window."""
        return (
            text.replace("W / 2", str(self.size["W"] // 2))
            .replace("W", str(self.size["W"]))
            .replace("S", str(self.size["S"]))
        )

    def factor(self, name: str, element: str, *, numpy: bool) -> str:
        """A factor, or what is added, in Halide or numpy; twins of functions get any numbers."""
        if self.kind != "integers":
            return element
        low, high = self.limits(name)
        if (low, high) != RANGES[self.types[name]]:
            element = f"{'np.clip' if numpy else 'hl.clamp'}({element}, {low}, {high})"
        element = element if numpy or name == "c" else f"hl.{WAYS[self.way][0]}({element})"
        return f"({element} - 3)" if self.way == "minus" and name == "a" else element

    def limits(self, name: str) -> tuple[int, int]:
        """The range of an integer."""
        (low, high), most = RANGES[self.types[name]], 400 if name == "c" else WAYS[self.way][1]
        return max(low, -most), min(high, most)

    def stored(self, n: int, kind: str) -> str:
        """An output in Halide."""
        if self.kind != "integers":
            return "found * 0.5" if n else "found"
        value = "found" if kind == "i32" else f"(found >> {self.shift})"
        value = f"{value} / 2" if n else value
        return value if kind == "i32" else f"hl.{kind}_sat({value})"

    def reference(self) -> str:
        """The same in numpy."""
        form, is_whole = FORMS[self.form], self.kind == "integers"
        lines = [f"def {self.name}({', '.join(self.types)}):"]
        lines += [f"    {each} = {each}.astype(np.{'int64' if is_whole else 'float64'})" for each in self.types]
        lines += [f"    {name} = {self.factor(name, name, numpy=True)}" for name in self.types]
        lines.append(f"    found = {self.sized(form.numpy)}")
        if self.way == "u32":
            lines.append("    found = found.astype(np.uint32).astype(np.int32).astype(np.int64)")
        if self.way == "sat":
            lines.append(f"    found = np.clip(found, {RANGES['i32'][0]}, {RANGES['i32'][1]}) >> 1")
        if "c" in self.types:
            lines.append("    found = found + c")
        if self.is_kept:
            lines.append("    found = found + found.max(-1, keepdims=True)")
        if self.is_clamped:
            low, high = (self.low, self.high) if is_whole else (self.low / 8, self.high / 8)
            lines.append(f"    found = np.clip(found, {low}, {high})")
        outputs = []
        for n, kind in enumerate(self.results):
            value = "found" if kind == "i32" or not is_whole else f"(found >> {self.shift})"
            value = (f"({value} >> 1)" if is_whole else f"{value} * 0.5") if n else value
            outputs.append(f"np.clip({value}, *{RANGES[kind]})" if is_whole and kind != "i32" else value)
        return "\n".join([*lines, f"    return {', '.join(outputs)}"])

    def definition(self) -> str:
        """The op of the config."""
        inputs = {name: DATATYPES[kind] for name, kind in self.types.items()}
        outputs = {f"y{n}": DATATYPES[kind] for n, kind in enumerate(self.results)}
        return definition(self.name, inputs, outputs, PLACES[self.place])

    def cases(self) -> str:
        """The cases of the op."""
        head = f'[[op]]\nname = "{self.name}"\nreference = "reference.py:{self.name}"\nbackends = ["{self.place}"]\n'
        head += (
            "tolerance = { FLOAT_32 = 1e-3 } # numpy adds floats in another order\n" if self.kind == "floats" else ""
        )
        return head + "".join(self.case(n) for n in range(CASES))

    def case(self, n: int) -> str:
        """A case: its shapes, values, scales and zero points."""
        size = self.draw_size(is_long=n == 0 and self.kind == "fixed" and self.dice.random() < 0.2, fills=n < 2)
        form = FORMS[self.form]
        a, b, y = ("x".join(str(size[axis]) for axis in shape) for shape in form.shapes)
        shapes = {"a": a, "b": b, "c": y.split("x")[-1]}
        shapes = {name: shapes[name] for name in self.types} | {f"y{n}": y for n in range(len(self.results))}
        count = (size["W"] ** 2 if "WW" in form.shapes[1] else 1) * (1 if form.shapes[1] == "WWN" else size["K"])
        count *= IN_WORDS.get(form.shapes[1], 1)
        lines = [f"name = {f'case {n}'!r}", f"shape = {_row({key: repr(each) for key, each in shapes.items()})}"]
        if self.kind == "fixed":
            values, quant = self.fixed_point(count)
            lines.append(f"quant = {_row(quant)}")
        elif self.kind == "integers":
            ranges = {name: self.limits(name) for name in self.types}
            lows = {name: ends[self.dice.random() < 0.1] for name, ends in ranges.items()}  # or all are the largest
            values = {name: f"'integers({low}, {ranges[name][1]})'" for name, low in lows.items()}
        else:
            values = dict.fromkeys(self.types, "'normal'")
        return "\n".join(["[[op.case]]", *lines, f"values = {_row(values)}", ""])

    def draw_size(self, *, is_long: bool, fills: bool) -> dict[str, int]:
        """The sizes of a case, which may fill tiles."""
        lists = {
            name: [each for each in sizes if not fills or each in FULL.get(name, sizes)]
            for name, sizes in SIZES.items()
        }
        while True:
            size = self.size | {"1": 1} | {name: self.dice.choice(sizes) for name, sizes in lists.items()}
            if is_long and "16" not in "".join(self.types.values()) and self.form in ("matmul", "linear", "shared"):
                return size | {"M": 4, "K": self.dice.choice(LONG), "N": 128, "B": 1}
            products = math.prod(size[each] for each in "MKNB")
            products *= IN_WORDS.get(FORMS[self.form].shapes[1], 1)
            products *= size["W"] ** 2 * size["M"] if "WW" in FORMS[self.form].shapes[1] else 1
            if products <= MOST_PRODUCTS:
                more = {"P": size["N"] + size["W"] - 1, "Q": size["M"] + size["W"] - 1, "D": 2 * size["K"]}
                more |= {"X": 4 * size["K"], "V": 8 * size["K"], "F": 4 * size["N"]}
                return size | {"I": (size["M"] - 1) * size["S"] + size["W"]} | more

    def fixed_point(self, count: int) -> tuple[dict[str, str], dict[str, str]]:
        """Values that fill the ranges of their types; outputs that hold about the range of their sum, or less."""
        dice, scales, values, mean, square = self.dice, {}, {}, 1.0, 1.0
        for name in [each for each in self.types if each != "c"]:
            low, high = RANGES[self.types[name].replace("q", "")]
            scale = 10 ** dice.uniform(-1, 1) / (high - low)
            zero = dice.choice((max(0, low), low, high, (low + high) // 2, dice.randint(low, high)))
            scales[name] = (scale, zero)
            ends = scale * (low - zero), scale * (high - zero)
            values[name] = f"'uniform({ends[0]:.6g}, {ends[1]:.6g})'"
            mean *= (ends[0] + ends[1]) / 2
            square *= ((ends[0] + ends[1]) / 2) ** 2 + (ends[1] - ends[0]) ** 2 / 12
        spread = 4 * math.sqrt(count * max(square - mean * mean, 0.0))
        least, most = min(0.0, count * mean - spread), max(0.0, count * mean + spread)
        for name, kind in self.types.items() if "c" in self.types else ():
            if name == "c":
                scales[name] = self.over(kind, least / 4, most / 4, 1.0)
                values[name] = f"'uniform({least / 4:.6g}, {most / 4:.6g})'"
        for n, kind in enumerate(self.results):
            scales[f"y{n}"] = self.over(kind, least, most, dice.choice((0.5, 1.0, 1.0, 3.0)))
        rows = {name: f"{{ scale = {scale:.6g}, offset = {-zero} }}" for name, (scale, zero) in scales.items()}
        return values, rows

    def over(self, kind: str, least: float, most: float, times: float) -> tuple[float, int]:
        """A scale and a zero point for these numbers."""
        low, high = RANGES[kind.replace("q", "")]
        scale = (most - least) * times / (high - low)
        return scale, min(max(low + round(-least / scale), low), high)


def _row(values: Mapping[str, str]) -> str:
    return f"{{ {', '.join(f'{name} = {value}' for name, value in values.items())} }}"


if __name__ == "__main__":
    main(Sums, 1)
