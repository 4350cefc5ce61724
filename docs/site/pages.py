"""A hook of MkDocs: the pages that follow from code, schemas and data, and files outside of docs that pages link to."""

from __future__ import annotations

import html
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from posixpath import normpath, relpath
from shutil import which
from typing import Any

import click
from lxml import etree
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from udogen import error_tables, runtime
from udogen.cli.main import VERBS, cli
from udogen.runtime import ops, quantization

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)]*)?\)")
_TABLE_ROW = re.compile(r"^\| .*`.*\\\|.*`.*\|$", re.MULTILINE)  # with a bar that must be escaped on code hosts
_ASSETS = ("iframe-worker.js", "mark.svg", "site.css")  # of this folder
_LONG_CODE, _PROSE = 20, 40  # characters
_CODE = re.compile(r"<code>.*?</code>", re.DOTALL)
_OPTION = re.compile(r"(?<![^\s>(|\[])--[a-z][\w-]*(?![^<]*>)")
_LANGUAGES = {".py": "python", ".cpp": "cpp", ".hpp": "cpp", ".json": "json", ".xml": "xml", ".toml": "toml"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Link to the repository that this clone is from, if it is on the web."""
    argv = ["git", "-C", str(ROOT), "config", "--get", "remote.origin.url"]
    origin = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip() if which("git") else ""
    if origin.startswith("https://"):
        config.repo_url = origin.removesuffix(".git")
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add generated pages, and a page for each file or folder outside of docs that a page links to."""
    pages = {
        "reference/cli.md": "\n".join(_verbs()),
        "reference/fields.md": "\n".join(_fields()),
        "reference/errors.md": "\n".join(_errors()),
        "reference/udogen.md": "# udogen\n\n::: udogen\n    options: {members: true, show_root_heading: false}\n",
        "reference/runtime.md": "\n".join(
            f"{'#' * (1 + bool(number))} {module.__name__}\n\n::: {module.__name__}\n"
            f"    options: {{show_root_heading: false, members: {json.dumps(module.__all__)}}}\n"
            for number, module in enumerate((runtime, ops, quantization))
        ),
        "reference/kernels.md": "# udogen.kernels\n\n::: udogen.kernels\n    options: {show_root_heading: false}\n",
    }
    texts = {
        page.src_uri: (Path(config.docs_dir) / page.src_uri).read_text("utf-8") for page in files.documentation_pages()
    }
    while texts:
        found = {}
        for uri, text in texts.items():
            for link, _ in _LINK.findall(text):
                target = _target(uri, link)
                if target and (page := _page_of(target)).startswith("files/") and page not in pages:
                    found[page] = pages[page] = _shown(target)
        texts = found
    assets = {f"assets/{name}": (ROOT / "docs/site" / name).read_text("utf-8") for name in _ASSETS}
    for uri, text in {**pages, **assets}.items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Links out of docs lead to the pages of those files; code in tables has its bars without backslashes."""
    uri = page.file.src_uri

    def moved(match: re.Match[str]) -> str:
        target = _target(uri, match[1])
        return f"]({relpath(_page_of(target), uri.rpartition('/')[0] or '.')}{match[2] or ''})" if target else match[0]

    return _TABLE_ROW.sub(lambda row: row[0].replace("\\|", "|"), _LINK.sub(moved, markdown))


def on_post_page(output: str, **_: Any) -> str:
    """Options are not broken at dashes; cells with sentences are `prose`; long code in cells is broken at marks."""

    def unbroken(code: re.Match[str]) -> str:
        return _OPTION.sub(r'<span class="option">\g<0></span>', code[0])

    def broken(code: re.Match[str]) -> str:
        text = re.sub(r"(?<=[/_=])(?=\w)", "<wbr>", code[1]) if len(code[1]) > _LONG_CODE else code[1]
        return f"<code>{text}</code>"

    def cell(match: re.Match[str]) -> str:
        text = re.sub(r"<code>([^<]*)</code>", broken, match[1])
        return f'<td class="prose">{text}</td>' if len(re.sub(r"<[^>]*>", "", text)) > _PROSE else f"<td>{text}</td>"

    return _CODE.sub(unbroken, re.sub(r"<td>(.*?)</td>", cell, output, flags=re.DOTALL))


def _target(uri: str, link: str) -> str:
    """The path in the repository that a link of a page leads to; nothing if the page may keep it as it is."""
    shown = uri.startswith("files/")
    target = normpath(f"{(uri.removeprefix('files/') if shown else f'docs/{uri}').rpartition('/')[0]}/{link}").lstrip(
        "/"
    )
    known = (ROOT / target).exists() and not target.startswith("..")
    return target if known and (shown or not target.startswith("docs/")) else ""


def _page_of(target: str) -> str:
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    return f"files/{target}" if target.endswith(".md") else f"files/{target}.md"


def _shown(target: str) -> str:
    """A file or folder of the repository as a page."""
    path = ROOT / target
    if path.suffix == ".md":
        return path.read_text("utf-8")
    lines = [f"# {target}", ""]
    if path.is_file():
        return "\n".join([*lines, f"~~~~{_LANGUAGES.get(path.suffix, 'text')}", path.read_text("utf-8"), "~~~~"])
    names = sorted(each for each in path.iterdir() if not each.name.startswith(("_", ".")))
    return "\n".join([*lines, *(f"* [{each.name}]({path.name}/{each.name})" for each in names if each.is_file())])


def _verbs() -> Iterator[str]:
    yield "# Command line\n\nEvery verb has `--help`; every verb that prints a result has `--json`.\n"
    yield "\n".join(f"* [`udogen {name}`](#udogen-{name}): {text}" for name, (_, text) in VERBS.items()) + "\n"
    yield from _commands(cli, "udogen", 0)


def _commands(command: click.Command, name: str, depth: int) -> Iterator[str]:
    context = click.Context(command, info_name=name, max_content_width=100, terminal_width=100)
    if depth:
        text = context.make_formatter()
        command.format_usage(context, text)
        command.format_help_text(context, text)
        yield f"{'#' * (depth + 1)} {name}\n\n```text\n{text.getvalue()}```\n"
        options = (each for each in command.get_params(context) if isinstance(each, click.Option))
        rows = filter(None, (each.get_help_record(context) for each in options))
        yield "\n".join(f"* `{names}`: {html.escape(meaning, quote=False)}" for names, meaning in rows) + "\n"
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            child = command.get_command(context, each)
            if child:
                yield from _commands(child, f"{name} {each}", depth + 1)


def _fields() -> Iterator[str]:
    yield "# Fields of configs\n\nWhat each language can hold, by the schemas that `udogen check` reads; "
    yield "[Configs](../configs.md) says what the fields mean.\n\n## JSON UDO\n"
    schema = json.loads((ROOT / "schemas/udo_config.schema.json").read_text("utf-8"))
    for name, row in schema["definitions"].items():
        parts = [row, *row.get("allOf", ())]
        properties = {key: value for part in parts for key, value in part.get("properties", {}).items()}
        needed = {each for part in parts for each in part.get("required", ())}
        if properties:
            yield f"### {name}\n\n| field | required | value |\n|---|---|---|"
            yield "\n".join(
                f"| `{key}` | {'yes' if key in needed else ''} | {_cell(_value(value))} |"
                for key, value in properties.items()
            )
            yield ""
    yield "## XML OpDef\n"
    xs = "{http://www.w3.org/2001/XMLSchema}"
    tree = etree.parse(ROOT / "schemas/OpDef.xsd").getroot()
    groups = {each.get("name"): each for each in tree.iter(f"{xs}group") if each.get("name")}
    for kind in tree.iter(f"{xs}complexType"):
        name = kind.get("name") or kind.getparent().get("name")
        within = [kind, *(groups[each.get("ref")] for each in kind.iter(f"{xs}group") if each.get("ref"))]
        rows = [(f"`<{e.get('name')}>`", e.get("type", "")) for part in within for e in part.iter(f"{xs}element")]
        rows += [(f"`{a.get('name')}=`", a.get("type", "")) for a in kind.iter(f"{xs}attribute")]
        if rows:
            yield f"### {name}\n\n| element or attribute | type |\n|---|---|"
            yield "\n".join(f"| {field} | {_cell(type_.removeprefix('xs:'))} |" for field, type_ in rows) + "\n"


def _value(row: dict[str, Any]) -> str:
    if "enum" in row:
        return "one of " + ", ".join(f"`{each}`" if each else "an empty string" for each in row["enum"])
    if "$ref" in row:
        return row["$ref"].rpartition("/")[2]
    if row.get("type") == "array":
        return "list of " + _value(row.get("items", {}))
    return " or ".join(_value(each) for each in row["anyOf"]) if "anyOf" in row else str(row.get("type", "any"))


def _errors() -> Iterator[str]:
    yield "# Error codes\n\nWhat `udogen explain NUMBER` knows.\n"
    for name in error_tables.INTERFACES:
        interface = error_tables.interface(name)
        yield f"## {interface.title}\n\n| number | name | meaning | cause and remedy |\n|---|---|---|---|"
        for code in interface.codes:
            causes = "<br>".join(f"{_cell(each.text)}: {_cell(each.remedy)}" for each in code.causes)
            yield f"| {code.code} | `{code.name}` | {_cell(code.meaning)} | {causes or _cell(code.remedy)} |"
        yield ""


def _cell(text: str) -> str:
    return html.escape(text, quote=False).replace("|", "\\|").replace("\n", " ")
