"""Rules in Python and what they become: Python itself, `infer` and the compiled C++ give the same answers, errors too.

The C++ is built, loaded, and asked by a host of ours as a converter would ask; Qualcomm's converters are not public.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.generate.converter_host import Converter, Said, Scalar
from tests.making import COMPILERS, compiler, make, udogen
from tests.opdef.texts import collection, op, param, tensor
from udogen.generate.converter import SUFFIX
from udogen.opdef.load import load
from udogen.opdef.outputs import Given, RuleFailed, Rules, infer, load_rules

REFUSED = 3110
Y4 = tensor("Output", "y")

CONFIG = collection(
    op(
        tensor("Input", "x", "FLOAT_32 UFIXED_POINT_8")
        + tensor("Input", "bias", mandatory="false")
        + tensor("Output", "y", "FLOAT_32 UFIXED_POINT_8")
        + param("size", "INT_32", default="2")
        + param("stride", "INT_32")
        + param("scale", "FLOAT_32", default="0.1")
        + param("ceil", "BOOL_8", default="false")
        + tensor("Parameter", "pads", "UINT_32", rank="2D", mandatory="false"),
        name="Pool",
    )
    + op(
        tensor("Input", "data")
        + tensor("Input", "shape", "INT_32")
        + tensor("Output", "y")
        + param("mode", "STRING", default="plain"),
        name="Reshape",
    )
    + op(
        tensor("Input", "first")
        + tensor("Input", "parts", more="<Repeated>true</Repeated>")
        + tensor("Input", "last")
        + tensor("Output", "joined")
        + tensor("Output", "pieces", "FLOAT_32 INT_32", more="<Repeated>true</Repeated>")
        + param("axis", "INT_32", default="-1"),
        name="Join",
    )
    + op(
        tensor("Input", "a")
        + tensor("Input", "b")
        + tensor("Output", "in[0]")
        + tensor("Output", "more", mandatory="false"),
        name="Broadcast",
    )
)

RULES = '''"""Rules of all that rules can be."""
import math
from math import floor

LEAST = 1
WORD = "plain"


def windows(length, size, stride, up):
    """How often a window fits."""
    if stride < LEAST:
        raise ValueError(f"stride is {stride}; {LEAST} is the least (\\"%s\\" of {[length, size]})")
    rest = length - size
    return (-(-rest // stride) if up else rest // stride) + 1


def padded(shape, pads):
    new = []
    for i, extent in enumerate(shape):
        before, after = pads[2 * i], pads[2 * i + 1]
        new.append(extent + before + after)
    return new


def Pool(op):
    n, h, w, c = op.x.shape
    if op.pads is not None:
        if op.pads.shape != [4, 2]:
            raise ValueError(f"pads are {op.pads.shape}")
        n, h, w, c = padded([n, h, w, c], op.pads.data)
    out = [windows(each, op.size, op.stride, op.ceil) for each in [h, w]]
    if op.bias is not None:
        c = max(c, op.bias.shape[0])
    elif op.scale > 1:
        c = int(c * op.scale)
    else:
        c += floor(op.scale * 10)
    return {"y": [n, *out, c]}


def Pool_dtypes(op):
    if op.x.dtype == "UFIXED_POINT_8" and op.size % 2 == 0:
        return {"y": op.x.dtype}
    return {"y": "FLOAT_32" if op.x.dtype in ("FLOAT_32", "FLOAT_16") else "UFIXED_POINT_8"}


def Reshape(op):
    if op.shape.data is None:
        raise ValueError("the shape must be constant")
    wanted = op.shape.data
    found = wanted[::-1] if op.mode != WORD else list(wanted)
    open_axis = -1
    for i in range(len(found)):
        if found[i] == 0:
            found[i] = op.data.shape[i]
        elif found[i] == -1:
            if open_axis != -1:
                raise ValueError("two are open")
            open_axis = i
            continue
        if found[i] > 1000:
            break
    if open_axis >= 0:
        found[open_axis] = 1
        found[open_axis] = math.prod(op.data.shape) // math.prod(found)
    return {"y": found}


def Join(op):
    axis = op.axis
    rank = len(op.first.shape)
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} of rank {rank}")
    shape = op.first.shape
    for part in op.parts:
        for a, b in zip(part.shape[:-1], shape):
            if a != b:
                raise ValueError("parts differ")
        shape[axis] += part.shape[axis]
    shape[axis] += op.last.shape[axis]
    pieces = []
    for i in range(len(op.pieces)):
        pieces.append([i + 1] + [d for d in op.last.shape if d % 2 == 1 and not d == 3])
    return {"joined": shape, "pieces": pieces}


def Join_dtypes(op):
    return {"pieces": ["INT_32" if len(op.last.shape) > i else "FLOAT_32" for i in range(len(op.pieces))]}


def Broadcast(op):
    a, b = op["a"].shape, op.b.shape
    if len(a) < len(b):
        a, b = b, a
    b = [1] * (len(a) - len(b)) + b
    both = []
    for left, right in zip(a, b):
        if left != right and min(left, right) != 1:
            raise ValueError(f"{a} and {b} do not go together")
        both.append(max(left, right))
    return {"in[0]": both, "more": [sum(a), max(b), abs(min(a) - 9) + 1] if op.more is not None else []}
'''


class Made:
    """The package of a config with rules, built and loaded; and the same rules in Python."""

    def __init__(self, folder: Path, config: str, rules: str) -> None:
        (folder / "demo.xml").write_text(config)
        (folder / "rules.py").write_text(rules)
        done = udogen("generate", folder / "demo.xml", "--converter", "--rules", folder / "rules.py", "-o", folder)
        assert done.returncode == 0, done.stderr
        self.folder = folder / f"Demo{SUFFIX}"
        built = make(self.folder, "cpu_x86")
        assert built.returncode == 0 and "warning" not in built.stderr, built.stderr
        self.converter = Converter(self.folder)
        packages, problems = load([folder / "demo.xml"])
        [self.rules] = load_rules(folder / "rules.py", packages, problems)
        self.plain: dict[str, Any] = {}
        exec(rules, self.plain)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("rules"), CONFIG, RULES)


def of_cpp(said: Said) -> Any:
    return said.shapes if said.status == 0 else said.status


def of_infer(rules: Rules, name: str, *arguments: Any, **more: Any) -> Any:
    try:
        return [each.shape for each in infer(rules, name, *arguments, **more).values()]
    except RuleFailed:
        return REFUSED


def fits(shape: Sequence[int]) -> bool:
    return all(0 < each < 1 << 32 for each in shape) and len(shape) <= 8


def of_python(function: Any, op_: SimpleNamespace, outputs: Sequence[str]) -> Any:
    """What Python itself makes of the user's file."""
    try:
        found = function(op_)
    except (ValueError, IndexError, ZeroDivisionError, AttributeError, OverflowError):
        return REFUSED
    several = [found[name] for name in outputs]
    return [tuple(each) for each in several] if all(map(fits, several)) else REFUSED


class Tensor(SimpleNamespace):
    """A tensor for rules that Python runs."""

    def __init__(self, given: Given) -> None:
        super().__init__(dtype=given.dtype, data=None if given.data is None else list(given.data))
        self._shape = given.shape

    @property
    def shape(self) -> list[int]:
        return list(self._shape)


extents = st.integers(1, 40) | st.sampled_from([1, 65536, 4294967295])
shapes = st.lists(extents, max_size=5).map(tuple)
numbers = st.integers(-5, 5) | st.integers(-(1 << 31), (1 << 31) - 1)
wide = st.integers(-9, 9) | st.integers(-(1 << 63), (1 << 63) - 1)
quietly = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)


@quietly
@given(
    x=st.lists(extents, min_size=4, max_size=4).map(tuple) | shapes,
    bias=st.none() | shapes,
    size=st.none() | numbers,
    stride=numbers,
    scale=st.none() | st.floats(-(2.0**20), 2.0**40, width=32),
    up=st.booleans(),
    pads=st.none() | st.lists(st.integers(0, 3), min_size=8, max_size=8),
    version=st.sampled_from([1, 2]),
)
@example(x=(1, 8, 8, 3), bias=None, size=None, stride=2, scale=None, up=True, pads=None, version=1)
def test_pool_is_the_same_thrice(
    made: Made,
    x: tuple[int, ...],
    bias: tuple[int, ...] | None,
    size: int | None,
    stride: int,
    scale: float | None,
    up: bool,
    pads: list[int] | None,
    version: int,
) -> None:
    inputs = {"x": Given(x)} | ({"bias": Given(bias)} if bias is not None else {})
    params: dict[str, Any] = {"stride": Scalar("INT_32", stride), "ceil": Scalar("BOOL_8", int(up))}
    params |= {} if size is None else {"size": Scalar("INT_32", size)}
    params |= {} if scale is None else {"scale": Scalar("FLOAT_32", scale)}
    params |= {} if pads is None else {"pads": Given((4, 2), "UINT_32", pads)}
    said = of_cpp(made.converter.ask("PoolShapeInference", list(inputs.values()), params, version=version))
    plain = {name: each if isinstance(each, Given) else each.value for name, each in params.items()}
    assert of_infer(made.rules, "Pool", inputs, {**plain, "ceil": up}) == said
    thing = SimpleNamespace(
        x=Tensor(Given(x)),
        bias=None if bias is None else Tensor(Given(bias)),
        pads=None if pads is None else Tensor(Given((4, 2), "UINT_32", pads)),
        size=2 if size is None else size,
        stride=stride,
        scale=0.10000000149011612 if scale is None else scale,
        ceil=up,
    )
    assert of_python(made.plain["Pool"], thing, ["y"]) == said


@quietly
@given(
    data=shapes,
    shape=st.lists(st.integers(-1, 6) | numbers, max_size=5) | st.none(),
    mode=st.sampled_from(["plain", "turned"]),
)
def test_reshape_is_the_same_thrice(made: Made, data: tuple[int, ...], shape: list[int] | None, mode: str) -> None:
    wanted = Given((len(shape or []),), "INT_32", shape)
    said = of_cpp(made.converter.ask("ReshapeShapeInference", [Given(data), wanted], {"mode": Scalar("STRING", mode)}))
    assert of_infer(made.rules, "Reshape", {"data": Given(data), "shape": wanted}, {"mode": mode}) == said
    thing = SimpleNamespace(data=Tensor(Given(data)), shape=Tensor(wanted), mode=mode)
    found = of_python(made.plain["Reshape"], thing, ["y"])
    if said != REFUSED or found == REFUSED:  # Python's own numbers are of any size
        assert found == said


@quietly
@given(
    first=st.lists(st.integers(1, 5), max_size=3).map(tuple),
    parts=st.lists(st.lists(st.integers(1, 3), max_size=3).map(tuple), min_size=1, max_size=3),
    axis=st.none() | st.integers(-4, 4),
    pieces=st.integers(1, 3),
)
@example(first=(2, 3), parts=[(2, 4)], axis=None, pieces=2)
def test_join_is_the_same_thrice(
    made: Made, first: tuple[int, ...], parts: list[tuple[int, ...]], axis: int | None, pieces: int
) -> None:
    inputs = [Given(each) for each in (first, *parts, first)]
    params = {} if axis is None else {"axis": Scalar("INT_32", axis)}
    said = of_cpp(made.converter.ask("JoinShapeInference", inputs, params, outputs=1 + pieces))
    named = {"first": inputs[0], "parts": inputs[1:-1], "last": inputs[-1]}
    plain = {} if axis is None else {"axis": axis}
    assert of_infer(made.rules, "Join", named, plain, outputs={"pieces": pieces}) == said
    thing = SimpleNamespace(
        first=Tensor(inputs[0]),
        parts=[Tensor(each) for each in inputs[1:-1]],
        last=Tensor(inputs[-1]),
        axis=-1 if axis is None else axis,
        pieces=[None] * pieces,
    )
    try:
        found = made.plain["Join"](thing)
        python = [tuple(found["joined"]), *map(tuple, found["pieces"])]
    except (ValueError, IndexError):
        python = REFUSED
    assert python == said


@quietly
@given(a=shapes, b=shapes, more=st.booleans())
def test_broadcast_is_the_same_in_both(made: Made, a: tuple[int, ...], b: tuple[int, ...], more: bool) -> None:
    said = of_cpp(made.converter.ask("BroadcastShapeInference", [Given(a), Given(b)], outputs=1 + more))
    assert of_infer(made.rules, "Broadcast", {"a": Given(a), "b": Given(b)}, outputs={"more": int(more)}) == said


def test_data_types(made: Made) -> None:
    for dtype, size, wanted in [
        ("UFIXED_POINT_8", 2, "UFIXED_POINT_8"),
        ("FLOAT_32", 3, "FLOAT_32"),
        ("INT_8", 2, "UFIXED_POINT_8"),
    ]:
        params = {"size": Scalar("INT_32", size), "stride": Scalar("INT_32", 1)}
        said = made.converter.ask("PoolDataTypeInference", [Given((1, 2, 3, 4), dtype)], params)
        assert (said.status, said.dtypes) == (0, [wanted])
        found = infer(made.rules, "Pool", {"x": Given((1, 4, 4, 4), dtype)}, {"size": size, "stride": 1})
        assert found["y"].dtype == wanted
    said = made.converter.ask(
        "JoinDataTypeInference", [Given((1, 2)), Given((3,)), Given((3, 1)), Given((1,))], outputs=3
    )
    assert said.dtypes == ["FLOAT_32", "INT_32", "FLOAT_32"], "what no rule says is as the config says"


def test_what_a_rule_raises_is_told(made: Made, capfd: pytest.CaptureFixture[str]) -> None:
    zero = {"stride": Scalar("INT_32", 0)}
    assert made.converter.ask("PoolShapeInference", [Given((1, 8, 9, 3))], zero).status == REFUSED
    words = 'stride is 0; 1 is the least ("%s" of [8, 2])'
    assert capfd.readouterr().err == f"converter op package: op Pool: {words}\n"
    with pytest.raises(RuleFailed) as caught:
        infer(made.rules, "Pool", {"x": Given((1, 8, 9, 3))}, {"stride": 0})
    assert caught.value.message.endswith(f"rules.py:12: {words}")


def test_what_can_change_is_known_of_the_output(made: Made) -> None:
    params = {"stride": Scalar("INT_32", 2)}
    said = made.converter.ask(
        "PoolShapeInference", [Given((1, 8, 9, 3))], params, version=2, dynamic=[(True, False, True, False)]
    )
    assert said == (0, [(1, 4, 4, 4)], [""], [(True, False, True, False)])


# --- every sentence, and every operator -----------------------------------------------------------------

SENTENCES = {
    "op.x.shape[op.n]": ([7], "an index is outside of its list"),
    "op.x.shape[-op.n]": ([4], "an index is outside of its list"),
    "5 // op.n": ([0], "a division by zero"),
    "5 % op.n": ([0], "a division by zero"),
    "int(5 / op.n)": ([0], "a division by zero"),
    "9223372036854775807 + op.n": ([1], "a number is too large"),
    "-9223372036854775807 - op.n": ([2], "a number is too large"),
    "4611686018427387904 * op.n": ([2], "a number is too large"),
    "(-9223372036854775807 - op.n) // -1": ([1], "a number is too large"),
    "abs(-9223372036854775807 - op.n)": ([1], "a number is too large"),
    "int(9223372036854775807 * 1.0) + op.n": ([0], "a number is too large"),
    "int(op.n * 1e30)": ([1], "a number is too large"),
    "int(op.n * 1e308 * 1e308)": ([1], "a number is too large"),
    "forever(op.n)": ([2000000], "it does not come to an end"),
    "len([1] * op.n)": ([2000000], "it does not come to an end"),
    "doubled(op.n)": ([60], "it does not come to an end"),
    "taken(op.x.shape[:op.n])": ([1, 3], "a list has not as many items as are taken from it"),
    "min(op.x.shape[op.n:])": ([3], "a list is empty, and has neither a least nor a greatest item"),
    "max([d for d in op.x.shape if d > op.n])": ([9], "a list is empty, and has neither a least nor a greatest item"),
    "op.x.shape[::op.n][0]": ([0], "the step of a slice or a range is zero"),
    "sum([i for i in range(1, 2, op.n)])": ([0], "the step of a slice or a range is zero"),
    "len(op.maybe.shape) + op.n": ([1], "something that is not there is used: maybe"),
    "op.lacking + op.n": ([1], "something that is not there is used: lacking"),
    "1 if op.x.data[op.n] > 0 else 2": ([1], "its data are not known, or of a type that rules cannot read: x"),
    "op.n": ([0, -1], "the shape of y would be [{n}]"),
}
HELPERS = """
def forever(n):
    total = 0
    for i in range(n):
        total += 1
    return total


def doubled(n):
    items = [1]
    for i in range(n):
        items = items + items
    return len(items)


def taken(items):
    a, b = items
    return a + b

"""


def one_op_each(expressions: Sequence[str]) -> tuple[str, str]:
    """A config with an op for each expression, and the rules: each says one extent."""
    body = (
        tensor("Input", "x")
        + tensor("Input", "maybe", mandatory="false")
        + tensor("Output", "y")
        + param("n", "INT_32", default="3")
        + param("m", "INT_64", default="-7")
        + param("r", "FLOAT_32", default="1.5")
        + tensor("Parameter", "lacking", "INT_32", rank="SCALAR", mandatory="false")
    )
    ops = "".join(op(body, name=f"E{number}") for number, _ in enumerate(expressions))
    rules = "import math\n" + HELPERS
    if "forever" not in " ".join(expressions):
        rules = "import math\n"
    for number, each in enumerate(expressions):
        rules += f'def E{number}(op):\n    return {{"y": [{each}]}}\n\n\n'
    return collection(ops), rules


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("failing"), *one_op_each(list(SENTENCES)))


@pytest.mark.parametrize("expression", SENTENCES)
def test_what_has_no_answer_is_one_sentence_in_both(
    expression: str, failing: Made, capfd: pytest.CaptureFixture[str]
) -> None:
    number = list(SENTENCES).index(expression)
    values, words = SENTENCES[expression]
    for n in values:
        said = failing.converter.ask(f"E{number}ShapeInference", [Given((2, 3, 5))], {"n": Scalar("INT_32", n)})
        assert said.status == REFUSED
        assert capfd.readouterr().err == f"converter op package: op E{number}: {words.format(n=n)}\n"
        with pytest.raises(RuleFailed) as caught:
            infer(failing.rules, f"E{number}", {"x": Given((2, 3, 5))}, {"n": n})
        assert caught.value.message.endswith(words.format(n=n))


def expression(rng: random.Random, depth: int) -> str:
    """A whole number, in some way."""

    def sub() -> str:
        return expression(rng, depth - 1)

    if depth == 0:
        leaves = ("op.n", "op.m", "op.x.shape[0]", "op.x.shape[-1]", "len(op.x.shape)", "2147483647")
        return rng.choice([*leaves, str(rng.randint(0, 9))])
    kind = rng.randrange(16)
    if kind < 6:
        return f"({sub()} {rng.choice(['+', '-', '*', '//', '%'])} {sub()})"
    if kind == 6:
        return f"(-{sub()})"
    if kind == 7:
        comparison = f"{sub()} {rng.choice(['<', '<=', '==', '!=', '>='])} {sub()}"
        both = f"{comparison} and {sub()} < {sub()}"
        condition = rng.choice([comparison, f"not {comparison}", both, f"{sub()} in ({sub()}, {sub()})"])
        return f"({sub()} if {condition} else {sub()})"
    if kind == 8:
        return f"{rng.choice(['min', 'max'])}({sub()}, {sub()})"
    if kind == 9:
        return f"op.x.shape[{sub()} % 3]"
    if kind == 10:
        return f"len(op.x.shape[{sub()}:{sub()}:{sub()}])"
    if kind == 11:
        return f"sum([{sub()}, {sub()}] + op.x.shape[{sub()}:])"
    if kind == 12:
        return f"sum([d * {sub()} for d in op.x.shape if d != {sub()}])"
    if kind == 13:
        right = rng.choice(["op.r", "0.5", "3", sub()])
        return f"{rng.choice(['int', 'math.floor', 'math.ceil'])}({sub()} {rng.choice('*/+-')} {right})"
    if kind == 14:
        return f"sum([i * j for i, j in enumerate([{sub()}, {sub()}])])"
    return f"abs({sub()})"


def native(text: str, n: int, m: int, r: float, shape: Sequence[int]) -> Any:
    import math

    op_ = SimpleNamespace(n=n, m=m, r=r, x=SimpleNamespace(shape=list(shape)))
    try:
        return eval(text, {"op": op_, "math": math})
    except (ZeroDivisionError, IndexError, ValueError, OverflowError):
        return REFUSED


@pytest.fixture(scope="module")
def random_rules(tmp_path_factory: pytest.TempPathFactory) -> tuple[Made, list[str]]:
    rng = random.Random(8)
    texts = [expression(rng, depth) for depth in (1, 2, 3) for _ in range(20)]
    wrapped = [f"({each}) % 1000003 + 1" for each in texts]
    return Made(tmp_path_factory.mktemp("random"), *one_op_each(wrapped)), wrapped


@pytest.mark.slow
@settings(max_examples=30, deadline=None, database=None)
@given(
    n=numbers,
    m=wide,
    r=st.floats(-50, 50, width=32),
    shape=st.lists(extents, min_size=3, max_size=3),
)
def test_random_rules_are_the_same_thrice(
    random_rules: tuple[Made, list[str]], n: int, m: int, r: float, shape: list[int]
) -> None:
    made, texts = random_rules
    params = {"n": Scalar("INT_32", n), "m": Scalar("INT_64", m), "r": Scalar("FLOAT_32", r)}
    for number, text in enumerate(texts):
        said = of_cpp(made.converter.ask(f"E{number}ShapeInference", [Given(shape)], params))
        assert of_infer(made.rules, f"E{number}", {"x": Given(shape)}, {"n": n, "m": m, "r": r}) == said, text
        if said != REFUSED:
            assert [(native(text, n, m, r, shape),)] == said, text


@pytest.mark.parametrize("cxx", COMPILERS)
def test_every_compiler_builds_them_without_a_warning(cxx: str, made: Made) -> None:
    done = make(made.folder, "clean", "cpu", cxx=compiler(cxx), jobs=1)
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr


# --- generating -------------------------------------------------------------------------------------------

SIMPLE = collection(op(tensor("Input", "x") + tensor("Output", "y"), name="Halve"))
HALVE = 'def Halve(op):\n    return {"y": [op.x.shape[0] // 2] + op.x.shape[1:]}\n'
CALL = "rules::HalveShapes(op);"


def simple(folder: Path, *arguments: object, rules: str = HALVE) -> Any:
    """`udogen generate` of one op whose shape a rule says."""
    (folder / "demo.xml").write_text(SIMPLE)
    (folder / "halve.py").write_text(rules)
    return udogen("generate", folder / "demo.xml", "-o", folder, *arguments)


def test_rules_alone_are_enough_to_ask_for_the_package(tmp_path: Path) -> None:
    done = simple(tmp_path, "--rules", tmp_path / "halve.py", "--strict")
    assert done.returncode == 0, "nothing is open: " + done.stderr
    folder = tmp_path / f"Demo{SUFFIX}"
    assert CALL in (folder / "ConverterOpPackage" / "ConverterOpPackage.cpp").read_text()
    assert (folder / ".sdk" / "rules.py").read_text() == HALVE


def test_a_package_keeps_its_rules_and_takes_new_ones(tmp_path: Path) -> None:
    assert simple(tmp_path, "--rules", tmp_path / "halve.py").returncode == 0
    again = simple(tmp_path, "--converter")
    assert again.returncode == 0 and f"Demo{SUFFIX}: converter package Demo (14 unchanged)" in again.stdout
    other = simple(tmp_path, "--rules", tmp_path / "halve.py", rules=HALVE.replace("// 2", "// 3"))
    assert other.returncode == 0
    header = tmp_path / f"Demo{SUFFIX}" / "ConverterOpPackage" / "ConverterRules.hpp"
    assert "udo::floordiv(op.x().shape()[0_i], 3_i)" in header.read_text()


def test_your_cpp_in_place_of_a_rule_is_used_and_that_is_told(tmp_path: Path) -> None:
    assert simple(tmp_path, "--rules", tmp_path / "halve.py").returncode == 0
    folder = tmp_path / f"Demo{SUFFIX}"
    source = folder / "ConverterOpPackage" / "ConverterOpPackage.cpp"
    source.write_text(source.read_text().replace(CALL, "op.setShape(0, {7});"))
    done = simple(tmp_path, "--rules", tmp_path / "halve.py")
    assert done.returncode == 0
    assert "HalveShapeInference is yours, and calls no rule of halve.py: yours is used" in done.stderr
    assert f"write `{CALL}` there where the rule shall be used" in done.stderr
    assert make(folder, "cpu_x86").returncode == 0
    assert of_cpp(Converter(folder).ask("HalveShapeInference", [Given((4, 5))])) == [(7,)]


def test_rules_that_come_after_your_cpp_do_not_take_its_place(tmp_path: Path) -> None:
    assert simple(tmp_path, "--converter").returncode == 0
    source = tmp_path / f"Demo{SUFFIX}" / "ConverterOpPackage" / "ConverterOpPackage.cpp"
    mine = source.read_text().replace('op.missing(0, "y");', "op.setShape(0, {7});")
    source.write_text(mine)
    done = simple(tmp_path, "--rules", tmp_path / "halve.py")
    assert done.returncode == 2 and source.read_text() == mine
    assert "ConverterOpPackage.cpp: yours is kept; ours is" in done.stderr


def test_faults_of_rules_are_shown_with_the_line(tmp_path: Path) -> None:
    rules = "def Halve(op):\n    return {'y': [op.z.shape[0] ** 2]}\n"
    done = simple(tmp_path, "--rules", tmp_path / "halve.py", rules=rules)
    assert done.returncode == 2 and not (tmp_path / f"Demo{SUFFIX}").exists()
    assert done.stderr.startswith(
        f"{tmp_path}/halve.py:2: error: `Halve` has no input, parameter or output `z`\n"
        "     2 | return {'y': [op.z.shape[0] ** 2]}\n"
        "       = it has x, y\n"
    )


def test_names_that_mean_something_in_cpp_are_only_names(tmp_path: Path) -> None:
    """Words of C++, of our own header, and letters that C++ has not: as variables, arguments, helpers."""
    config = collection(
        op(
            tensor("Input", "int") + tensor("Input", "asked") + tensor("Output", "y") + param("new", "INT_32"),
            name="Std",
        )
    )
    rules = (
        "def real(udo, std):\n    größe = udo * std\n    gr_e = größe + 1\n    return gr_e\n\n"
        "def floordiv(namespace):\n    template = [namespace, 1]\n    return template\n\n"
        "def Std(int_):\n    auto = int_.int.shape\n    rules, parts = auto\n    each = 0\n"
        "    for errno in int_.asked.shape:\n        each += errno\n"
        "    this = [x for x in [real(rules, parts)] if x != each]\n"
        '    return {"y": floordiv(int_.new) + this + [each]}\n'
    )
    made = Made(tmp_path, config, rules)
    said = made.converter.ask("StdShapeInference", [Given((2, 3)), Given((4, 5))], {"new": Scalar("INT_32", 8)})
    assert of_cpp(said) == [(8, 1, 7, 9)]
    assert of_infer(made.rules, "Std", {"int": Given((2, 3)), "asked": Given((4, 5))}, {"new": 8}) == [(8, 1, 7, 9)]
