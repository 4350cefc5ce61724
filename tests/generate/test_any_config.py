"""Random ops, whose names also occur in compilers and headers, generate and compile without a warning."""

from __future__ import annotations

import random
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from tests.making import COMPILERS, compiler, make_packages, make_well
from udogen.opdef.datatypes import ALL

NAMES = (
    "x y in out in[0] in[1] out[0] default class struct this int float double bool true false nullptr new delete "
    "template operator namespace using args Args State state node entries tables udo std ops finalize execute "
    "free bind0 Input Output Any View Shape List Kernel Instance Binding size_t uint32_t INT32_MIN NAN INFINITY "
    "HUGE FP_NAN BIG_ENDIAN EOF NULL errno assert stdout main linux unix i386 has_x has_y x_enum y_enum x_enum_t "
    "log error ok validate name 1st 2nd 0 a.b a/b a-b a:b and or not xor signal printf mandatory QNN_SUCCESS "
    "Qnn_Tensor_t isnan round min max PATH_MAX _x __y X9 RAND_MAX offsetof va_arg alloca errno_t restrict "
    "noinline minor major "
).split()
OPS = (
    "Relu printf min max abs list map vector string Args_ State_ entry node bind bind1 table kernel log error udo_ x "
    "Input Output View finalize execute release operator_ Q free_ free size data isnan"
).split()
TEXTS = (
    "",
    "plain",
    "a */ b",
    "ends in \\",
    "\\ \\",
    "??/",
    "${x} <%y%>",
    "% if",
    "## no",
    "// more",
    "é 中 \u202e",
    "a\nb \\",
)
NUMBERS = {
    "int": ("0", "-1", "lowest", "highest"), "uint": ("0", "1", "highest"), "bool": ("0", "1", "true", "false"),
    "float": ("0", "1", "-0.0", "1e-30", "0.1", "-3.25e4", "inf", "-inf", "nan", "1.f"),
    "sfixed": ("0", "-1", "highest"), "ufixed": ("0", "highest"), "string": ("word", "two words", '"', "\\", "??/"),
}  # fmt: skip
TENSORS = [row for row in ALL if row.name in ("FLOAT_32", "INT_32", "UINT_32", "UINT_8", "BOOL_8", "UFIXED_POINT_8")]


def number(dice: random.Random, row: object) -> str:
    text = dice.choice(NUMBERS[row.kind])  # type: ignore[attr-defined]
    low, high = row.range() or (0, 0)  # type: ignore[attr-defined]
    return {"lowest": str(low), "highest": str(high)}.get(text, text)


def tensor(dice: random.Random, tag: str, name: str, *, mandatory: bool) -> str:
    types = dice.sample(TENSORS, dice.randint(1, 3))
    return element(dice, tag, name, [row.name for row in types], dice.choice(("ND", "0D", "4D", "1D")), "", mandatory)


def param(dice: random.Random, name: str) -> str:
    scalar = dice.random() < 0.6
    types = dice.sample(list(ALL) if scalar else TENSORS, dice.choice((1, 1, 2)))
    if any(row.kind == "string" for row in types):
        types = [row for row in ALL if row.kind == "string"]
        scalar = True
    default = ""
    if dice.random() < 0.6:
        default = number(dice, types[0])
        if not scalar:
            default = "[" + ", ".join(default if default not in ("true", "false") else "1" for _ in range(3)) + "]"
        default = f"<Default>{escape(default)}</Default>"
    elif scalar and all(row.integral for row in types) and dice.random() < 0.7:
        items = dice.sample(NAMES, dice.randint(1, 2))
        default = "<Enumeration>" + "".join(f"<Enum>{item}</Enum>" for item in items) + "</Enumeration>"
    rank = "SCALAR" if scalar else dice.choice(("1D", "ND"))
    return element(dice, "Parameter", name, [row.name for row in types], rank, default, dice.random() < 0.4)


def element(dice: random.Random, tag: str, name: str, types: list[str], rank: str, more: str, mandatory: bool) -> str:
    text = escape(dice.choice(TEXTS))
    return (
        f"<{tag}><Name>{name}</Name><Description><Content>{text}</Content></Description>"
        f"<Mandatory>{str(mandatory).lower()}</Mandatory>{''.join(f'<Datatype>{kind}</Datatype>' for kind in types)}"
        f"<Shape><Rank>{rank}</Rank></Shape>{more}</{tag}>\n"
    )


def op(dice: random.Random, name: str) -> str:
    from udogen.opdef.names import identifier

    names = {identifier(each): each for each in dice.sample(NAMES, 12)}  # equal identifiers are tested elsewhere
    picked = list(names.values())
    inputs = [tensor(dice, "Input", picked.pop(), mandatory=True) for _ in range(dice.randint(1, 2))]
    outputs = [tensor(dice, "Output", picked.pop(), mandatory=True) for _ in range(dice.randint(1, 2))]
    if dice.random() < 0.5:
        inputs.append(tensor(dice, "Input", picked.pop(), mandatory=False))
    params = [param(dice, picked.pop()) for _ in range(dice.randint(0, 6))]
    description = f"<Description><Content>{escape(dice.choice(TEXTS))}</Content></Description>"
    body = "".join([*inputs, *outputs, *params])
    return f"<OpDef><Name>{name}</Name>{description}{body}<SupportedBackend>CPU</SupportedBackend></OpDef>\n"


def config(seed: int) -> str:
    dice = random.Random(seed)
    ops = "".join(op(dice, name) for name in dice.sample(OPS, 12))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<OpDefCollection PackageName="RandomPackage" Domain="test" Version="1">\n'
        f"<OpDefList>\n{ops}</OpDefList>\n</OpDefCollection>\n"
    )


@pytest.mark.parametrize("seed", range(len(COMPILERS)))
def test_any_config_compiles_without_a_warning(seed: int, tmp_path: Path) -> None:
    cxx = compiler(COMPILERS[seed % len(COMPILERS)])
    (tmp_path / "random.xml").write_text(config(seed), "utf-8")
    [made] = make_packages([tmp_path / "random.xml"], tmp_path)
    make_well(made.folder, cxx=cxx, flags="-O0")
