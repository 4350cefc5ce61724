"""Random kernels in Python, of integers, compared with numpy: `python -m tests.kernels.random_kernels 1000`.

Each output of an op is a kernel: it has loops of its own, and an op with several takes less time to build.  An
expression is a pair of texts, in Halide and in numpy, with the range of its values: an overflow of INT_32 is undefined.
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Protocol

from tests.command_line import udogen

RANGES = {
    "u8": (0, 255),
    "i8": (-128, 127),
    "u16": (0, 65535),
    "i16": (-32768, 32767),
    "i32": (-(1 << 31), (1 << 31) - 1),
}
DATATYPES = {"u8": "UINT_8", "i8": "INT_8", "u16": "UINT_16", "i32": "INT_32"}
PLACES = {"cpu": "CPU", "htp": "HTP", "hexagon": "HTP", "gpu": "GPU"}  # with the names of their backends in configs
VIEWS = {"Flat": "i", "Rows(-2)": "i", "Whole(4)": "ijkn"}  # with their indices
SHAPES = ("1", "3", "127", "129", "1000", "128x5x3", "2x3x129", "1x3x1000")
OUTPUTS = 2
OF_HALIDE = ("s", "i", "base", "min", "loop_max", "x", "max", "extent", "loop_min", "j", "__outermost", "row", "inner",
             "vector", "lane", "outer", "e", "k", "half", "block", "some")  # fmt: skip
MOST = 1 << 16  # of elements of INT_32, so that products may fit
VALUES = {"i32": f"integers({-2 * MOST}, {2 * MOST})"}


@dataclass(frozen=True)
class Number:
    """An expression: its type, its texts, the range of its values."""

    type: str
    halide: str
    numpy: str
    low: int
    high: int


def made(kind: str, halide: str, numpy: str, low: int, high: int) -> Number | None:
    """The expression, wrapped if it leaves the range of a type that wraps; None if that is undefined."""
    least, most = RANGES[kind]
    if least <= low and high <= most:
        return Number(kind, halide, numpy, low, high)
    return None if kind == "i32" else Number(kind, halide, f"wrap({numpy}, '{kind}')", least, most)


def cast(number: Number, kind: str) -> Number:
    """The expression as another type; those that wrap do."""
    if kind == number.type:
        return number
    least, most = RANGES[kind]
    halide = f"hl.{kind}({number.halide})"
    if least <= number.low and number.high <= most:
        return Number(kind, halide, number.numpy, number.low, number.high)
    return Number(kind, halide, f"wrap({number.numpy}, '{kind}')", least, most)


class RandomOp(Protocol):
    """An op with a kernel, for one place: its texts."""

    name: str

    def source(self) -> str: ...
    def reference(self) -> str: ...
    def definition(self) -> str: ...
    def cases(self) -> str: ...


class Kernels:
    """An op with several random kernels, for one place."""

    def __init__(self, name: str, dice: random.Random, place: str) -> None:
        self.name, self.dice, self.place = name, dice, place
        self.types = ("u8", "i8" if place == "cpu" else "u16", "i32")  # what the place passes to ops
        self.inputs = {each: dice.choice(self.types) for each in "abc"[: dice.randint(1, 3)]}
        self.view = dice.choice(list(VIEWS))
        self.divides = dice.random() < 0.1  # INT_32 by any number: on Hexagon, the op has no vectors then
        self.memory: list[str] = []  # lines that write to memory, which the outputs read
        wholes = [self.expression(dice.randint(1, 4)) for _ in range(OUTPUTS)]
        self.outputs = {f"y{n}": cast(each, dice.choice(self.types)) for n, each in enumerate(wholes)}

    def element(self) -> Number:
        """An element of an input: at the same index, beside it, or shared by a line; or a line's maximum."""
        dice, name = self.dice, self.dice.choice(list(self.inputs))
        kind, variables = self.inputs[name], list(VIEWS[self.view])
        axis = 1 if self.view == "Rows(-2)" else None if self.view == "Flat" else dice.randrange(3)
        at = (axis or 0) if len(variables) > 1 else 0
        numpy, where = name, dice.random()
        if where < 0.15:
            step = dice.choice((-2, -1, 1, 2))
            length = f"{name}.extent({at})" if len(variables) > 1 else f"{name}.size"
            variables[at] = f"hl.clamp({variables[at]} + {step}, 0, {length} - 1)"
            numpy = f"beside({name}, {axis}, {step})"
        elif where < 0.3:
            variables[at] = "0"
            numpy = f"first({name}, {axis})"
        elif where < 0.4 and (self.place != "gpu" or len(variables) > 1):
            return self.scanned(name, axis, at)
        halide = f"{name}[{', '.join(variables)}]"
        low, high = RANGES[kind]
        if kind == "i32":  # Halide knows the range, too
            low, high = -MOST, MOST
            halide, numpy = f"hl.clamp({halide}, {low}, {high})", f"np.clip({numpy}, {low}, {high})"
        if self.view == "Rows(-2)" and where > 0.95:
            halide, kind = f"hl.i32({name}.max(lambda i: hl.f32({halide})))", "i32"
            numpy = f"({numpy}).max(-2, keepdims=True)"
        found = Number(kind, halide, numpy, low, high)
        return self.kept(found, [each for each, index in zip(VIEWS[self.view], variables, strict=True) if index != "0"])

    def kept(self, number: Number, names: Sequence[str]) -> Number:
        """The same number, which may be kept in memory."""
        if self.dice.random() < 0.8 or not names:
            return number
        made = f"m{len(self.memory)}"
        self.memory.append(f"{made} = scratch(); {made}[{', '.join(names)}] = {number.halide}")
        return replace(number, halide=f"{made}[{', '.join(names)}]")

    def scanned(self, name: str, axis: int | None, at: int) -> Number:
        """The sum of a line of an input up to an element, in ten bits."""
        variables, made = list(VIEWS[self.view]), f"m{len(self.memory)}"
        length, index = f"{name}.extent({at})" if len(variables) > 1 else f"{name}.size", variables[at]
        variables[at] = f"r{made}.x"
        step = f"lambda before: (before + (hl.i32({name}[{', '.join(variables)}]) & 1023)) & 1023"
        self.memory.append(f"r{made} = hl.RDom([(0, {length})]); {made} = scan(r{made}, hl.i32(0), {step})")
        after = self.dice.randint(0, 1)
        return Number("i32", f"{made}[{index} + {after}]", f"summed({name}, {axis}, {after})", 0, 1023)

    def expression(self, depth: int) -> Number:
        """A random expression."""
        while True:
            found = self.attempt(depth)
            if found is not None:
                return self.kept(found, VIEWS[self.view]) if depth else found

    def attempt(self, depth: int) -> Number | None:
        dice = self.dice
        if depth == 0:
            return self.element()
        a = self.expression(depth - 1)
        kind = a.type
        what = dice.choice("+ + - * * >> >> << / / % min select cast cast cast sat average round".split())
        if what == "cast":
            return cast(a, dice.choice([each for each in RANGES if each != kind] + ["i32", "i32"]))
        if what == "sat":
            to = dice.choice([each for each in RANGES if each not in (kind, "i32")])
            low, high = RANGES[to]
            bounds = [min(max(each, low), high) for each in (a.low, a.high)]
            return Number(
                to, f"hl.saturating_cast(hl.{TYPE[to]}, {a.halide})", f"np.clip({a.numpy}, {low}, {high})", *bounds
            )
        if what in (">>", "/", "<<", "round"):
            n = dice.randint(1, 7 if kind[1:] == "8" else 10)
            if what == "<<":
                return made(kind, f"({a.halide} << {n})", f"({a.numpy} << {n})", a.low << n, a.high << n)
            if what == "round":
                halide = f"hl.rounding_shift_right({a.halide}, hl.cast({a.halide}.type(), {n}))"
                half = 1 << (n - 1)
                return Number(kind, halide, f"(({a.numpy} + {half}) >> {n})", a.low + half >> n, a.high + half >> n)
            if what == "/" and dice.random() < 0.5 and (kind != "i32" or self.divides):
                return self.quotient(a)
            symbol, value = (">>", n) if what == ">>" else ("/", min(1 << n, RANGES[kind][1] // 2 + 1))
            if what == "/":
                n = value.bit_length() - 1
                if value > RANGES[kind][1]:
                    return None
            return Number(kind, f"({a.halide} {symbol} {value})", f"({a.numpy} >> {n})", a.low >> n, a.high >> n)
        if what == "%":
            n = dice.choice((2, 3, 7, 16, 64, 100) if kind != "i32" or self.divides else (2, 16, 64)) * (
                -1 if kind[0] == "i" and dice.random() < 0.3 else 1
            )
            return Number(kind, f"({a.halide} % {n})", f"({a.numpy} % {abs(n)})", 0, abs(n) - 1)
        b = cast(self.expression(depth - 1), kind)
        if what == "min":
            name = dice.choice(("min", "max"))
            pick = min if name == "min" else max
            return Number(kind, f"hl.{name}({a.halide}, {b.halide})", f"np.{name}imum({a.numpy}, {b.numpy})",
                          pick(a.low, b.low), pick(a.high, b.high))  # fmt: skip
        if what == "select":
            return Number(kind, f"hl.select({a.halide} > {b.halide}, {a.halide}, {cast(b, kind).halide} / 2)",
                          f"np.where({a.numpy} > {b.numpy}, {a.numpy}, {b.numpy} >> 1)",
                          min(a.low, b.low >> 1), max(a.high, b.high >> 1))  # fmt: skip
        if what == "average":
            name, more = dice.choice((("halving_add", ""), ("rounding_halving_add", " + 1")))
            low, high = (a.low + b.low) >> 1, (a.high + b.high + 1) >> 1
            return Number(
                kind, f"hl.{name}({a.halide}, {b.halide})", f"(({a.numpy} + {b.numpy}{more}) >> 1)", low, high
            )
        ends = {"+": (a.low + b.low, a.high + b.high), "-": (a.low - b.high, a.high - b.low)}
        corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        low, high = ends.get(what, (min(corners), max(corners)))
        return made(kind, f"({a.halide} {what} {b.halide})", f"({a.numpy} {what} {b.numpy})", low, high)

    def quotient(self, a: Number) -> Number:
        """Division by a number; Halide's is Euclidean."""
        n = self.dice.choice((3, 5, 7, 10, 100)) * (-1 if a.type[0] == "i" and self.dice.random() < 0.3 else 1)
        most = max(abs(a.low), abs(a.high)) // abs(n) + 1
        low, high = (0, most) if a.low >= 0 and n > 0 else (-most, most)
        return Number(a.type, f"({a.halide} / {n})", f"divided({a.numpy}, {n})", low, high)

    def source(self) -> str:
        """The kernels."""
        given = ", ".join(f"{tensor}: {self.view}" for tensor in (*self.inputs, *self.outputs))
        names = VIEWS[self.view]
        lines = [
            "import halide as hl",
            "from udogen.kernels import Flat, Rows, Whole",
            "from udogen.kernels.math import scan, scratch",
            "",
            f"def {self.name}({given}):",
        ]
        lines += variables(self.name, names)
        lines += [f"    {line}" for line in self.memory]
        lines += [f"    {name}[{', '.join(names)}] = {value.halide}" for name, value in self.outputs.items()]
        return "\n".join(lines) + "\n"

    def reference(self) -> str:
        """The same in numpy."""
        lines = [f"def {self.name}({', '.join(self.inputs)}):", "    shape = a.shape"]
        lines += [f"    {tensor} = {tensor}.astype(np.int64)" for tensor in self.inputs]
        values = (f"np.broadcast_to(wrap({tensor.numpy}, '{tensor.type}'), shape)" for tensor in self.outputs.values())
        return "\n".join([*lines, f"    return {', '.join(values)}"])

    def definition(self) -> str:
        """The op of the config."""
        inputs = {name: DATATYPES[kind] for name, kind in self.inputs.items()}
        outputs = {name: DATATYPES[each.type] for name, each in self.outputs.items()}
        return definition(self.name, inputs, outputs, PLACES[self.place])

    def cases(self) -> str:
        """The cases of the op."""
        shapes = [shape for shape in SHAPES if "x" in shape or self.view != "Rows(-2)"]
        values = ", ".join(f'{name} = "{VALUES.get(kind, "integers")}"' for name, kind in self.inputs.items())
        return (
            f'[[op]]\nname = "{self.name}"\nreference = "reference.py:{self.name}"\n'
            f'[[op.case]]\nshape = {shapes!r}\nvalues = {{ {values} }}\nbackends = ["{self.place}"]\n'
        )


TYPE = {"u8": "UInt(8)", "i8": "Int(8)", "u16": "UInt(16)", "i16": "Int(16)"}
_TENSOR = """<{tag}><Name>{name}</Name><Mandatory>true</Mandatory><Datatype>{type}</Datatype>
<Shape><Rank>ND</Rank></Shape></{tag}>"""


def variables(kernel: str, names: Iterable[str]) -> list[str]:
    """Lines that make variables; several kernels have all names that Halide uses for its own."""
    number = int(re.sub(r"\D", "", kernel))
    return [f"    {name} = hl.Var('{OF_HALIDE[(number + n) % len(OF_HALIDE)]}')" for n, name in enumerate(names)]


def definition(op: str, inputs: Mapping[str, str], outputs: Mapping[str, str], backend: str = "HTP") -> str:
    """The definition of an op; tensors are given with their types."""
    rows = [("Input", *each) for each in inputs.items()] + [("Output", *each) for each in outputs.items()]
    tensors = "".join(_TENSOR.format(tag=tag, name=name, type=kind) for tag, name, kind in rows)
    return f"<OpDef><Name>{op}</Name>{tensors}<SupportedBackend>{backend}</SupportedBackend></OpDef>"


def config(package: str, definitions: Iterable[str]) -> str:
    """The config of a package."""
    head = f'<OpDefCollection PackageName="{package}" Domain="test" Version="1.0"><OpDefList>'
    return f"{head}{''.join(definitions)}</OpDefList></OpDefCollection>"


NUMPY = '''"""The kernels in numpy, with integers of 64 bits."""

import numpy as np

DTYPES = {"u8": np.uint8, "i8": np.int8, "u16": np.uint16, "i16": np.int16, "i32": np.int32}


def wrap(x, kind):
    return x.astype(DTYPES[kind]).astype(np.int64) if kind != "i32" else x


def divided(x, n):
    return x // n if n > 0 else -(x // -n)


def along(x, axis, index):
    if axis is None:
        return x.reshape(-1)[index(x.size)].reshape(x.shape)
    if axis >= x.ndim:
        return x
    at = x.ndim - 1 - axis
    return np.take(x, index(x.shape[at]), at)


def beside(x, axis, step):
    return along(x, axis, lambda length: np.clip(np.arange(length) + step, 0, length - 1))


def first(x, axis):
    return along(x, axis, lambda length: np.zeros(length, int))


def summed(x, axis, after):
    if axis is None:
        sums = np.cumsum(x & 1023).reshape(x.shape)
    elif axis >= x.ndim:
        sums = x & 1023
    else:
        sums = np.cumsum(x & 1023, x.ndim - 1 - axis)
    return sums - (0 if after else x & 1023) & 1023


def windows(a, b, step):
    """The part of an image at each place of a window, and the weights there."""
    sizes = [(length - b.shape[n]) // step + 1 for n, length in enumerate(a.shape[1:3])]
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            ends = [at + (size - 1) * step + 1 for at, size in zip((i, j), sizes)]
            yield a[:, i : ends[0] : step, j : ends[1] : step], b[i, j]


def padded(a, window):
    return np.pad(a, ((0, 0), *[(window // 2, window // 2)] * 2, (0, 0)), "edge")


def conv(a, b, step):
    return sum(part @ weights for part, weights in windows(a, b, step))


def of_words(b):
    return b.reshape(len(b), -1, 4).transpose(0, 2, 1).reshape(4 * len(b), -1)


def depthwise(a, b, step):
    return sum(part * weights for part, weights in windows(a, b, step))


'''


Making = Callable[[str, random.Random, str], RandomOp]  # of a name, dice and a place


def write(folder: Path, seed: int, count: int, made: Making = Kernels) -> None:
    """Write the config, the kernels, the references and the tests of so many ops, in all places in turn."""
    (folder / "kernels").mkdir(parents=True)
    places = [each for _, each in zip(range(count), cycle(PLACES), strict=False)]
    ops = [made(f"K{n}", random.Random(f"{seed} {n}"), place) for n, place in enumerate(places)]
    for op in ops:
        (folder / "kernels" / f"{op.name}.py").write_text(op.source())
    (folder / "Random.xml").write_text(config("Random", [op.definition() for op in ops]))
    (folder / "reference.py").write_text(NUMPY + "\n\n\n".join(op.reference() for op in ops) + "\n")
    head = 'config = "Random.xml"\nkernels = "kernels"\n'
    (folder / "op_tests.toml").write_text(head + "\n".join(op.cases() for op in ops))


def main(made: Making = Kernels, each: int = OUTPUTS) -> None:
    """Test so many kernels in a folder that remains: `random_kernels COUNT [SEED]`; ops have `each` of them."""
    count, seed = ([*map(int, sys.argv[1:]), 0])[:2]
    folder = Path(tempfile.mkdtemp())
    write(folder, seed, -(-count // each), made)
    done = udogen("test", folder, *(part for place in PLACES for part in ("--backend", place)))
    print(folder, done.stdout, done.stderr)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
