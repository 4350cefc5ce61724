"""Makes a project folder: configs, kernels, references, op_tests.toml, Makefile, README; overwrites nothing."""

from __future__ import annotations

import keyword
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from udogen import backends
from udogen.backends.plan import PlannedFile
from udogen.configs.load import load
from udogen.errors import UdogenError, UsageError, read_plain, reading
from udogen.findings import Finding
from udogen.generate import op_tests
from udogen.generate.pipeline import Generated, GenerateOptions, generate
from udogen.init.draft import USUAL_BACKENDS, Draft, DraftCase, case_lines, check_config, clean, config_text, save
from udogen.opdef import names
from udogen.opdef.datatypes import BY_NAME
from udogen.opdef.model import Op, OpPackage, Rank, Tensor

_STARTER_TYPES = "FLOAT_32,UFIXED_POINT_8"
_SHOWN_OPS = 3
_BUILT = "*/obj/\n*/libs/"


@dataclass(frozen=True)
class ProjectFiles:
    """The initial contents of a project."""

    configs: Mapping[str, bytes]  # by file name
    cases: Sequence[DraftCase] = ()
    references: Mapping[str, str] = field(default_factory=dict)  # by op, as written in test files
    files: Mapping[str, bytes] = field(default_factory=dict)  # finished files, by path
    is_starter: bool = False  # the op is y = factor * x, with finished kernel and reference
    warnings: Sequence[Finding] = ()
    remarks: Sequence[Finding] = ()  # about the model, as in the comments of the configs


@dataclass(frozen=True)
class Project:
    """A project folder that was written."""

    files: Mapping[Path, str]  # path -> `created` or `unchanged`
    packages: Sequence[OpPackage]
    unwritten: Sequence[str]  # references and kernels that the user must write, in this order


def op_name(folder: Path) -> str:
    """The name of an op from the folder of its project: `leaky_relu` becomes LeakyRelu."""
    words = re.split(r"[^A-Za-z0-9]+", folder.name)
    return names.suggestion("".join(word[:1].upper() + word[1:] for word in words), "MyOp")


def starter(name: str, chosen: Sequence[str]) -> Draft:
    """The draft of the op y = factor * x, whose kernel and reference are finished."""
    types = tuple(BY_NAME[each] for each in _STARTER_TYPES.split(","))
    factor = Tensor("factor", "param", types[:1], Rank(scalar=True), mandatory=False, default=2.0)
    op = Op(
        name,
        inputs=(Tensor("x", "input", types),),
        outputs=(Tensor("y", "output", types),),
        params=(factor,),
        backends=tuple(backend.upper() for backend in chosen or USUAL_BACKENDS),
    )
    return Draft(OpPackage(f"{name}OpPackage", (op,), domain="custom", version="1.0"))


def of_drafts(drafts: Sequence[Draft], *, is_starter: bool = False) -> ProjectFiles:
    """The configs of drafts, with the cases and references of all of them."""
    configs, warnings = {}, []
    for draft in drafts:
        name = f"{draft.package.ops[0].name}.xml"
        text, lost = config_text(draft)
        _, problems = check_config(text, name)
        configs[name] = text.encode()
        warnings += [*lost, *problems]
    return ProjectFiles(
        configs=configs,
        cases=[case for draft in drafts for case in draft.cases],
        references=dict(chain(*(draft.references.items() for draft in drafts))),
        files=dict(chain(*(draft.files.items() for draft in drafts))),
        is_starter=is_starter,
        warnings=warnings,
        remarks=[remark for draft in drafts for remark in draft.remarks],
    )


def of_config(config: Path) -> ProjectFiles:
    """The unchanged config; the file is named after its package if make does not support its name."""
    packages, findings = load([config])
    with reading(config, hint="give a config"):
        content = read_plain(config)
    plain = re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", config.name)
    name = config.name if plain else f"{packages[0].name}{config.suffix.lower()}"
    return ProjectFiles({name: content}, warnings=findings.warnings)


def make(folder: Path, contents: ProjectFiles, *, kernel: str, model: Path | None = None) -> Project:
    """Write the project, for the ops of a model if one is given; after an error no files remain."""
    packages, folders, generated = _generated(contents.configs)
    ops = [op for package in packages for op in package.ops]
    kernels = _kernels(packages, generated, kernel, is_starter=contents.is_starter)
    known = _known_tests(packages, contents, kernel)
    unreferenced = [op for op in ops if not known[op.name].reference]
    files = {
        **contents.configs,
        **kernels,
        **contents.files,
        **{file.path: file.render() for file in op_tests.files(packages, known)},
    }
    commands = _model_commands(folder, model, folders) if model is not None else []
    files |= command_files(folder, packages, sorted(files), folders, cases=contents.cases, commands=commands)
    functions = ", ".join(op_tests.snake_case(op.name) for op in unreferenced)
    unwritten = [f"{op_tests.REFERENCES} ({functions})"] if functions else []
    unwritten += [path for path in kernels if path not in contents.files]
    return Project(
        files=save({folder / name: content for name, content in files.items()}),
        packages=packages,
        unwritten=() if contents.is_starter else unwritten,
    )


def _known_tests(packages: Sequence[OpPackage], contents: ProjectFiles, kernel: str) -> dict[str, op_tests.KnownTests]:
    has_own = contents.is_starter and kernel == "python"  # the file of the kernel has the reference, too
    return {
        op.name: op_tests.KnownTests(
            config=Path(package.sources[0]).name,
            reference=contents.references.get(op.name, f"kernels/{op.name}.py:reference" if has_own else ""),
            cases=case_lines(op, [case for case in contents.cases if case.op == op.name]),
            body="return factor * x" if contents.is_starter else "",
        )
        for package in packages
        for op in package.ops
    }


def _generated(configs: Mapping[str, bytes]) -> tuple[Sequence[OpPackage], list[Generated], list[Generated]]:
    """The packages of configs, what `udogen generate` would write, and the same with one package per backend."""
    with TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in configs]
        for path, content in zip(paths, configs.values(), strict=True):
            path.write_bytes(content)
        packages, findings = load(paths)
        options = GenerateOptions(Path(folder), dry_run=True)
        usual = generate(packages, options, findings)
        if all(part.plan.backend in backends.ALL for part in usual):
            return packages, usual, usual
        try:
            return packages, usual, generate(packages, options._replace(layout="qnn"), findings)
        except UdogenError:  # one of the backends does not have this layout
            return packages, usual, usual


def _kernels(
    packages: Sequence[OpPackage], generated: Sequence[Generated], kernel: str, *, is_starter: bool
) -> dict[str, bytes]:
    """The kernels by path: one for each op for all backends that share kernels, the others by backend."""
    skeletons: dict[str, bytes] = {}
    for part in generated:
        ops = {op.name: op for package in packages if package.name == part.plan.package for op in package.ops}
        for file in part.plan.files:
            if not (file.user_owned and file.template):
                continue
            name = file.path.rpartition("/")[2]
            backend = part.plan.backend if part.plan.backend in backends.ALL else file.template.split("/")[1]
            op = ops.get(Path(name).stem)
            if op is None or (".py" if kernel == "python" else ".cpp") not in backends.ALL[backend].common_kernels:
                path = f"kernels/{backend}/{name}"
                skeletons[path] = _skeleton(path, file.path, part.rendered)
            elif kernel == "python" or is_starter:
                path = f"kernels/{op.name}.{'py' if kernel == 'python' else 'cpp'}"
                skeletons.setdefault(path, _own_kernel(path, op, part.plan.package, is_starter=is_starter))
            else:
                path = f"kernels/{name}"
                skeletons.setdefault(path, _skeleton(path, file.path, part.rendered))
    return skeletons


_SEE_HEADER = re.compile(r"^( *)// add code here; see \S+ for what args holds\n", re.MULTILINE)
_ARGS = re.compile(r"^struct Args \{\n(.*?)^\};", re.MULTILINE | re.DOTALL)


def _skeleton(path: str, source: str, rendered: Mapping[str, bytes]) -> bytes:
    """The skeleton of a package for a project; it lists the arguments, as no header is next to it."""
    text = rendered[source].decode().replace(source, path)
    header = next((name for name in rendered if name.endswith(f"include/ops/{Path(path).stem}.hpp")), "")
    args = _ARGS.search(rendered[header].decode()) if header else None
    if args is None:
        return text.encode()
    fields = "".join(f"  //   {line.strip()}\n" for line in args[1].splitlines() if line.strip())
    body = f"  // Write the kernel here.  args holds:\n{fields}{_loop(args[1])}"
    return _SEE_HEADER.sub(lambda _: body, text).encode()


def _loop(args: str) -> str:
    """A loop over the elements of the first input and output, as a comment."""
    sides = [
        re.search(rf"^ *udo::(?:Any{side}|{side}<[^>]*>) (\w+);", args, re.MULTILINE) for side in ("Input", "Output")
    ]
    names = [match[1] for match in sides if match]
    if len(names) < len(sides):
        return ""
    source, result = names
    return (
        "  // real(i) and setReal(i, value) suit each backend; [i] of a quantized tensor is the stored number.\n"
        "  // For example a copy:\n"
        f"  //   for (size_t i = 0; i < args.{result}.size(); ++i) args.{result}.setReal(i, args.{source}.real(i));\n"
        "  //   return udo::ok;\n"
        f"  // args.{source}.shape() has rank() and [axis]; include/udogen.hpp of the package has the rest.\n"
    )


def _own_kernel(path: str, op: Op, package: str, *, is_starter: bool) -> bytes:
    """A kernel in Python, or the finished kernel of the starter."""
    tensors = [tensor.name for tensor in (*op.inputs, *op.outputs, *op.params)]
    for name in tensors if path.endswith(".py") else ():
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(
                f"a kernel of {op.name} in Python cannot have an argument `{name}`", hint="--kernel cpp, or rename it"
            )
    template, arguments = "starter" if is_starter else "kernel", _arguments(op)
    views = any("Flat" in argument for argument in arguments)
    data = {
        "op": op.name,
        "package": package,
        "arguments": ", ".join(arguments),
        "imports": ["from udogen.kernels import Flat"] if views else [],
        "output": op.outputs[0].name,
    }
    return PlannedFile(path, template=f"project/{template}{path[path.rindex('.') :]}.mako", data=data).render()


def _arguments(op: Op) -> list[str]:
    """The arguments of a kernel's function in Python; those with defaults are last."""
    arguments = []
    for tensor in op.tensors:
        kind = tensor.datatypes[0].kind
        types = ",".join(row.name for row in tensor.datatypes)
        if tensor.role == "param":
            number = "float" if kind == "float" else "int"
            arguments.append(
                tensor.name
                if not tensor.is_scalar
                else f"{tensor.name}={tensor.default!r}"
                if tensor.default is not None
                else f"{tensor.name}: {number}"
            )
            continue
        view = "" if types in (_STARTER_TYPES, "BACKEND_SPECIFIC") else f': Flat(types="{types}")'
        default = (" = None" if view else "=None") if tensor.role == "input" and not tensor.mandatory else ""
        arguments.append(f"{tensor.name}{view}{default}")
    return sorted(arguments, key=lambda text: "=" in re.sub(r"\(.*?\)", "", text))


def command_files(
    folder: Path,
    packages: Sequence[OpPackage],
    files: Sequence[str],
    folders: Sequence[Generated],
    *,
    out: str = "out/",
    options: Sequence[str] = (),
    cases: Sequence[DraftCase] = (),
    commands: Sequence[str] = (),
) -> dict[str, bytes]:
    """Makefile, README and .gitignore of a project whose packages are in `out`, generated with these options.

    `make run` uses the shapes of the first case.  `commands` are additional commands for the README, after `make run`.
    Packages that are not in a separate folder are cleaned, not removed.
    """
    into = out.rstrip("/") or "."
    cleaned = [f"rm -rf {into}"] if out else [f"$(MAKE) -C {each.folder.name} clean" for each in folders]
    first = next(each for each in folders if each.plan.package == packages[0].name)
    configs = [Path(source).name for package in packages for source in package.sources]
    ops = list(chain(*(package.ops for package in packages)))
    data = {
        "title": clean(folder.resolve().name),
        "op": ops[0].name,
        "ops": ", ".join(op.name for op in ops[:_SHOWN_OPS]) + (" …" if len(ops) > _SHOWN_OPS else ""),
        "several": len(packages) > 1,
        "build": [
            " ".join(["generate", *dict.fromkeys(configs), "--kernels kernels", *options, "-o", into]),
            f"build -C {into}",
        ],
        "run": _run(ops[0], f"{out}{first.folder.name}", cases),
        "clean": cleaned,
        "commands": ["make test", "make run", *commands, _register(folders, out)],
        "files": [(path, _contents(path)) for path in files],
    }
    made = [PlannedFile(name, template=f"project/{name}.mako", data=data) for name in ("Makefile", "README.md")]
    return {**{file.path: file.render() for file in made}, ".gitignore": f"{out or _BUILT}\nreport.html\n".encode()}


def _register(folders: Sequence[Generated], out: str) -> str:
    """The command that registers the packages of one backend."""
    of_one = [folder for folder in folders if folder.plan.backend == folders[-1].plan.backend]
    client = "ort" if of_one[0].plan.backend in backends.ALL else "snpe-net-run"
    return f"udogen register {' '.join(f'{out}{package.folder.name}' for package in of_one)} --client {client}"


def _model_commands(folder: Path, model: Path, folders: Sequence[Generated]) -> list[str]:
    """The command that runs the whole model with the packages, if ONNX Runtime supports one of the backends."""
    if not {"cpu", "htp"} & {each.plan.backend for each in folders}:
        return []
    path = shlex.quote(os.path.relpath(model, folder))
    return [f"udogen run model {path} --package out --tests ."]


def _run(op: Op, folder: str, cases: Sequence[DraftCase]) -> str:
    """The arguments of `udogen` for one execution, escaped for a Makefile."""
    case = next((each for each in cases if each.op == op.name), None)
    shapes = {name: tensor.shape for name, tensor in case.inputs.items() if tensor.shape} if case is not None else {}
    words = op_tests.run_arguments(op, folder, shapes)
    return " ".join(shlex.quote(word).replace("$", "$$") for word in words)


def _contents(path: str) -> str:
    if path.startswith("kernels/"):
        backend = path.split("/")[1]
        return f"the kernel for {backends.ALL[backend].title}" if backend in backends.ALL else "the kernel"
    if path.startswith("extra/"):
        return "needed by kernels"
    texts = {op_tests.FILE: "the test cases", op_tests.REFERENCES: "the expected results of the ops, in numpy"}
    return texts.get(path) or ("the config" if path.endswith((".xml", ".json")) else "part of a reference")
