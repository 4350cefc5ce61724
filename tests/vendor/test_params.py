"""Parameters of kernels in the styles of Qualcomm's generators: each subset left out, in each order.

The ops have parameters of every kind with defaults.  Their kernels read them by position, and the CPU's also by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest

from tests.hexagon.running import need_tools
from tests.making import cpu_package, gpu_package, htp_package, make_packages, op_session
from tests.opdef import texts
from udogen import RunFailed
from udogen.runtime import Tensor
from udogen.runtime.built import Built, find_source
from udogen.runtime.op.calls import OpResult, param_of
from udogen.runtime.ops import HexagonSession, OpCall

HERE = Path(__file__).parent
# Op -> its parameters in the order of the config, which is not that of their names.
OPS = {
    "One": {"p": "tensor"},
    "Two": {"z": "bool", "a": "real"},
    "Three": {"m": "text", "b": "tensor", "k": "whole"},
    "Four": {"w": "whole", "c": "real", "t": "bool", "h": "tensor"},
    "Pair": {"r": "real", "s": "real"},
    "Bare": {"q": "bare", "d": "real"},  # `q` has no default
}
KINDS = {  # data type, rank, default, its value in the sum, another argument and its value
    "real": ("FLOAT_32", "SCALAR", "0.5", 0.5, 2.1, 2.1),
    "whole": ("INT_32", "SCALAR", "-3", -3, 4, 4),
    "bool": ("BOOL_8", "SCALAR", "true", 1, False, 0),
    "tensor": ("FLOAT_32", "1D", "[1, 2]", 4, np.array([3, 5], np.float32), 11),
    "text": ("STRING", "SCALAR", "A", 65, "C", 67),
    "bare": ("FLOAT_32", "SCALAR", None, None, 6.0, 6),
}
X = np.ones(5, np.float32)


def config(backend: str, folder: Path) -> Path:
    ops = ""
    for name, params in ops_of(backend).items():
        body = texts.X + texts.Y
        for param, (dtype, rank, default, *_) in ((param, KINDS[kind]) for param, kind in params.items()):
            more = f"<Default>{default}</Default>" if default else ""
            body += texts.tensor("Parameter", param, dtype, rank=rank, mandatory="false", more=more)
        ops += texts.op(body, name, backend.upper())
    file = folder / f"{backend}.xml"
    file.write_text(texts.collection(ops, name="ParamsPackage"))
    return file


def ops_of(backend: str) -> dict[str, dict[str, str]]:
    """Return the ops; HTP has no texts."""
    instead = {"text": "real"} if backend == "htp" else {}
    return {op: {name: instead.get(kind, kind) for name, kind in params.items()} for op, params in OPS.items()}


# How a kernel of a backend (params/) reads the parameter `{at}`, called `{name}`.
READ = {
    "cpu": {
        "scalar": "getParam(node)[{at}] == getParam(node, \"{name}\").second ? "
        "getParam(node)[{at}]->scalarParam : -1e6",
        "tensor": "2 * ((float*)getParam(node)[{at}]->tensorParam->data)[0] + "
        '((float*)getParam(node, "{name}").second->tensorParam->data)[1]',
        "text": "getParam(node)[{at}]->string[0]",
    },
    "gpu": {
        "real": "params[{at}].scalarParam.floatValue",
        "whole": "params[{at}].scalarParam.int32Value",
        "bool": "params[{at}].scalarParam.bool8Value",
        "tensor": "2 * ((float*)params[{at}].tensorParam.v1.clientBuf.data)[0] + "
        "((float*)params[{at}].tensorParam.v1.clientBuf.data)[1]",
        "text": "params[{at}].scalarParam.stringValue[0]",
    },
    "dsp": {
        "real": "params[{at}].scalarParam.dataValue.floatValue",
        "whole": "params[{at}].scalarParam.dataValue.int32Value",
        "bool": "params[{at}].scalarParam.dataValue.uint8Value",
        "tensor": "2 * ((float*)params[{at}].tensorParam.tensorData)[0] + "
        "((float*)params[{at}].tensorParam.tensorData)[1]",
        "text": "params[{at}].stringParam[0]",
    },
    "htp": {
        "real": "*(const float*)qhpi_tensor_raw_data(inputs[1 + {at}])",
        "whole": "*(const int32_t*)qhpi_tensor_raw_data(inputs[1 + {at}])",
        "bool": "(*(const uint8_t*)qhpi_tensor_raw_data(inputs[1 + {at}]) != 0)",
        "tensor": "2 * ((const float*)qhpi_tensor_raw_data(inputs[1 + {at}]))[0] + "
        "((const float*)qhpi_tensor_raw_data(inputs[1 + {at}]))[1]",
    },
}  # fmt: skip

SIGNATURE = "{QHPI_Any_Element_Type, QHPI_Layout_Flat4, QHPI_Storage_Direct, QHPI_MemLoc_DDR_OR_TCM}"


def kernels_of(backend: str, folder: Path, *, by_name: bool = False) -> Path:
    """Write kernels that add 1, 10, 100 … times the value of each parameter to the input."""
    (folder / backend).mkdir(parents=True)
    for op, params in ops_of(backend).items():
        terms = []
        for index, (name, kind) in enumerate(params.items()):
            at = sorted(params).index(name) if by_name else index
            rows = READ[backend]
            row = rows.get("real" if kind == "bare" else kind) or rows["scalar"]
            terms.append(f"{10**index} * ({row.format(at=at, name=name)})")
        words = {
            "SIGNATURES": ", ".join([SIGNATURE] * len(params)),
            "NAMES": ", ".join(f'"{name}"' for name in params),
            "SUM": "(float)(" + " + ".join(terms) + ")",
            "COUNT": str(len(params)),
            "LOWER": op.lower(),
            "OP": op,
        }
        text = (HERE / "params" / f"{backend}.cpp").read_text()
        for word, value in words.items():
            text = text.replace(f"@{word}@", value)
        (folder / backend / f"{op}.cpp").write_text(text)
    return folder


def orders(params: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Return each order of each subset."""
    for size in range(len(params) + 1):
        for chosen in combinations(params, size):
            yield from permutations(chosen)


def call_of(op: str, params: Mapping[str, str], given: tuple[str, ...]) -> tuple[OpCall, float]:
    """A call with these parameters in this order, and what it adds to the input."""
    args = []
    for name in given:
        dtype, _, _, _, value, _ = KINDS[params[name]]
        args.append(param_of(name, value, dtype))
    added = sum(
        10**i * (KINDS[kind][5] if name in given else KINDS[kind][3]) for i, (name, kind) in enumerate(params.items())
    )
    x, y = Tensor("x", "FLOAT_32", X.shape, data=X), Tensor("y", "FLOAT_32", X.shape)
    return OpCall(op, "ParamsPackage", (x,), (y,), tuple(args)), added


def pair_of(r: float, s: float) -> tuple[OpCall, float]:
    """A call with the parameters of `Pair` in the other order, and what it adds to the input."""
    args = (param_of("s", s, "FLOAT_32"), param_of("r", r, "FLOAT_32"))
    x, y = Tensor("x", "FLOAT_32", X.shape, data=X), Tensor("y", "FLOAT_32", X.shape)
    return OpCall("Pair", "ParamsPackage", (x,), (y,), args), r + 10 * s


def built_of(backend: str, layout: str, folder: Path) -> Built:
    kernels = kernels_of(backend, folder / "kernels", by_name=layout == "snpe")
    file = config(backend, folder)
    if backend == "htp":
        return htp_package(file, folder / "out", kernels)
    if backend == "dsp":
        need_tools()
        [made] = make_packages([file], folder / "out", chosen=["dsp"], kernels=kernels, layout=layout)
        return find_source(made.folder, backend="dsp")
    return (cpu_package if backend == "cpu" else gpu_package)(file, folder / "out", kernels, layout)


def run(built: Built, backend: str, call: OpCall) -> OpResult:
    if backend != "dsp":
        return op_session(built, backend).run(call)
    assert built.folder is not None
    return HexagonSession(built.folder, arch="v66").run(call)


PLACES = [*((each, layout) for each in ("cpu", "gpu", "dsp") for layout in ("qnn", "snpe")), ("htp", "qnn")]


@pytest.mark.parametrize(("backend", "layout"), PLACES)
def test_defaults_in_every_order(backend: str, layout: str, tmp_path: Path) -> None:
    built = built_of(backend, layout, tmp_path)
    wrong = []
    for op, params in ops_of(backend).items():
        every = list(orders(params)) if op not in ("Bare", "Pair") else []
        for given in every[::9] if backend == "dsp" else every:
            call, added = call_of(op, params, given)
            try:
                y = run(built, backend, call).outputs["y"]
            except RunFailed as fault:
                wrong.append((op, given, fault.message))
            else:
                if not np.allclose(y, X + added, rtol=1e-5):
                    wrong.append((op, given, f"{y[0]} instead of {1 + added}"))
    assert not wrong, (len(wrong), wrong[:4])
    for given in ((), ("d",)):
        call, _ = call_of("Bare", {"d": "real"}, given)
        with pytest.raises(RunFailed) as refused:
            run(built, backend, call)
        assert "`q`" in refused.value.message + "".join(str(line) for line in refused.value.details)


def test_values_in_two_orders_in_one_session(tmp_path: Path) -> None:
    """A node of HTP that was put in order may have the values and the address of a later one that was not."""
    built, wrong = built_of("htp", "qnn", tmp_path), []
    for each in range(60):
        call, added = pair_of(*((1.0, 2.0) if each % 2 else (2.0, 1.0)))
        y = run(built, "htp", call).outputs["y"]
        wrong += [(each, y[0] - 1, added)] if y[0] != 1 + added else []
    assert not wrong
