"""Config texts for tests, and the problems that loading them reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from udogen import ConfigError
from udogen.configs.load import load
from udogen.findings import Finding
from udogen.opdef.model import Op, OpPackage


def tensor(
    tag: str, name: str, datatype: str = "FLOAT_32", *, rank: str = "ND", mandatory: str = "true", more: str = ""
) -> str:
    """Return an <Input>, <Output> or <Parameter>; `more` is inserted before its end."""
    types = "".join(f"<Datatype>{each}</Datatype>" for each in datatype.split())
    return (
        f"<{tag}><Name>{name}</Name><Mandatory>{mandatory}</Mandatory>{types}"
        f"<Shape><Rank>{rank}</Rank></Shape>{more}</{tag}>\n"
    )


def param(name: str, datatype: str = "FLOAT_32", *, rank: str = "SCALAR", default: str = "", more: str = "") -> str:
    """Return a <Parameter>, optional if it has a default."""
    mandatory = "false" if default else "true"
    more += f"<Default>{default}</Default>" if default else ""
    return tensor("Parameter", name, datatype, rank=rank, mandatory=mandatory, more=more)


X = tensor("Input", "x")
Y = tensor("Output", "y")


def op(body: str = X + Y, name: str = "Scale", backends: str = "CPU") -> str:
    """Return an <OpDef>."""
    supported = "".join(f"<SupportedBackend>{each}</SupportedBackend>" for each in backends.split())
    return f"<OpDef><Name>{name}</Name>\n{body}{supported}</OpDef>\n"


def collection(ops: str = op(), supplements: str = "", name: str = "Demo") -> str:
    """Return an <OpDefCollection>."""
    return (
        f'<OpDefCollection PackageName="{name}" Domain="aisw" Version="1.0">\n<OpDefList>\n{ops}</OpDefList>\n'
        f"{supplements}</OpDefCollection>\n"
    )


def supplement(body: str, backend: str = "CPU", name: str = "Scale") -> str:
    """Return a <SupplementalOpDefList> for one op."""
    return (
        f'<SupplementalOpDefList Backend="{backend}">\n<SupplementalOpDef><Name>{name}</Name>\n{body}'
        "</SupplementalOpDef>\n</SupplementalOpDefList>\n"
    )


def udo(name: str = "Demo", **changes: Any) -> str:
    """Return a JSON UDO config of one op; None removes a key."""
    body = {
        "type": "Scale",
        "inputs": [{"name": "x", "data_type": "FLOAT_32"}],
        "outputs": [{"name": "y", "data_type": "FLOAT_32"}],
        "core_types": ["CPU"],
        **changes,
    }
    operator = {key: value for key, value in body.items() if value is not None}
    return json.dumps({"UdoPackage_0": {"Operators": [operator], "UDO_PACKAGE_NAME": name}}, indent=1)


def packages(tmp_path: Path, *texts: str | bytes) -> tuple[OpPackage, ...]:
    """Return the packages of valid configs."""
    return load([_write(tmp_path, number, text) for number, text in enumerate(texts)])[0]


def only_op(tmp_path: Path, text: str) -> Op:
    """Return the op of a config that has one."""
    return packages(tmp_path, text)[0].ops[0]


def problems_of(tmp_path: Path, *texts: str | bytes) -> list[Finding]:
    """Return all problems that loading reports."""
    try:
        return list(load([_write(tmp_path, number, text) for number, text in enumerate(texts)])[1].all())
    except ConfigError as fault:
        return list(fault.findings)


def errors(tmp_path: Path, *texts: str | bytes) -> list[str]:
    """Return the messages of errors."""
    return [finding.message for finding in problems_of(tmp_path, *texts) if finding.is_error]


def warnings(tmp_path: Path, *texts: str | bytes) -> list[str]:
    """Return the messages of warnings."""
    return [finding.message for finding in problems_of(tmp_path, *texts) if not finding.is_error]


def _write(tmp_path: Path, number: int, text: str | bytes) -> Path:
    data = text if isinstance(text, bytes) else text.encode()
    path = tmp_path / f"config{number}.{'json' if data.lstrip()[:1] == b'{' else 'xml'}"
    path.write_bytes(data)
    return path
