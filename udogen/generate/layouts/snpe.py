"""The layout of the UDO documentation: one folder, with a registration library and a library for each core.

The folder shows exactly what the page "Creating a UDO Package" prints.  What its packages take from installed SDKs
(headers, helper sources, rules of make) is in one hidden folder, so that ours compile without any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace

from udogen import backends
from udogen.backends import folder, reg, targets
from udogen.backends.backend import Backend, Kind, Target, UdoCore
from udogen.backends.plan import Part, Plan, PlannedFile, Source, record
from udogen.errors import UsageError
from udogen.opdef import names
from udogen.opdef.model import OpPackage

_SDK = ".sdk"


def plan(by_backend: Mapping[str, OpPackage], source: Source) -> Sequence[Plan]:
    """The one plan of a package."""
    package = next(iter(by_backend.values()))
    made = {name: backends.ALL[name].contents(each, source, _place(name)) for name, each in by_backend.items()}
    parts = {name: _parts(name, contents.parts, by_backend[name]) for name, contents in made.items()}
    listed = [(_core(name).core, part.library) for name in parts for part in parts[name]]
    parts[reg.KIND.id] = (_reg_part(package, [op for each in parts.values() for part in each for op in part.ops]),)
    files = {file.path: file for contents in made.values() for file in contents.files}
    seen = [(_core(name), by_backend[name]) for name in backends.ALL if name in by_backend]
    registration = reg.files(package, seen, source, list(dict.fromkeys(listed)))
    files |= {file.path: file for file in registration}
    said = [_say(name, each, [*files], package) for name, each in parts.items()]
    data = {
        "package": record(name=package.name),
        "config": source.label,
        "reg": next(each for each in said if each.udo),
        "rooms": [each.room for each in said if each.android and not each.udo],
        **_root(said),
    }
    files |= {file.path: file for file in [*_root_files(data), *chain(*(_core_files(each, data) for each in said))]}
    files |= {
        f"config/{name}": PlannedFile(f"config/{name}", content=content) for name, content in source.configs.items()
    }
    return [
        Plan(
            package=package.name,
            backend="udo",
            layout="snpe",
            libraries="libs",
            configs=tuple(f"config/{name}" for name in source.configs),
            files=tuple(files[path] for path in sorted(files)),
            parts=tuple(chain(*parts.values())),
        )
    ]


def _core(kind: str) -> UdoCore:
    found = backends.KINDS[kind].udo
    if found is None:
        raise UsageError(f"the documentation of UDO knows no {kind} backend", hint="generate it with --layout qnn")
    return found


def _place(backend: str) -> folder.Place:
    """Where the files of a backend go: its room shows what the documentation shows, the rest is hidden."""
    core = _core(backend)

    def place(path: str) -> str:
        if path in ("Makefile", "makefiles/Android.mk", "makefiles/Application.mk", "makefiles/linux.mk"):
            return ""  # the layout has its own
        if path == "makefiles/htp_core.mk":
            return f"{_SDK}/{backend}/htp_core.mk"
        if path.startswith(("makefiles/", "include/QNN/")):
            return f"{_SDK}/{path}"
        shown = path in core.shows or path.startswith("src/ops/") or path.endswith("Interface.cpp")
        return f"{core.folder}/{path}" if shown else f"{_SDK}/{backend}/{path}"

    return place


# --- the libraries -------------------------------------------------------------------------------------------------


def _parts(backend: str, made: Sequence[Part], package: OpPackage) -> tuple[Part, ...]:
    """The libraries of a core, by the names of the documentation; their names say the op where each op has its own."""
    core = _core(backend)
    return tuple(
        replace(
            part,
            library=core.library.format(f"{package.name}{part.op}"),
            targets=tuple(row.id for row in _targets(backend, package)),
            makefile=f"{core.folder}/Makefile",
            rooms=(core.folder, f"{_SDK}/{backend}"),
        )
        for part in made
    )


def _reg_part(package: OpPackage, ops: Iterable[str]) -> Part:
    return Part(
        backend=reg.KIND.id,
        library=_core(reg.KIND.id).library.format(package.name),
        provider="",
        ops=tuple(dict.fromkeys(ops)),
        targets=reg.KIND.target_ids("snpe"),
        makefile=f"{_core(reg.KIND.id).folder}/Makefile",
        rooms=(_core(reg.KIND.id).folder, "jni/src/utils"),
    )


def _targets(backend: str, package: OpPackage) -> list[Target]:
    """The targets of a core; of the DSP those versions that the config names, or all where it names none."""
    rows = backends.ALL[backend].udo_targets
    named = {arch for op in package.ops for arch in op.dsp_archs}
    versions = [row for row in rows if row.arch in named] or [row for row in rows if row.arch]
    if _core(backend).one_library:
        versions = versions[:1]  # one folder for all of them: what is made for the oldest runs on the others
    return [row for row in rows if not row.arch] + versions


# --- what the templates are told -------------------------------------------------------------------------------------


def _say(backend: str, parts: Sequence[Part], paths: Sequence[str], package: OpPackage) -> SimpleNamespace:
    kind, core, part = backends.KINDS[backend], _core(backend), parts[0]
    ours = f"{_SDK}/{backend}"
    rooms = tuple(f"{room}/" for room in part.rooms)
    if not kind.runs_ops:
        folders = ["include", "include/utils"]
    else:
        places = [f"{room}/{each}" for room in part.rooms for each in ("include", "src/utils")]
        folders = [each for each in places if any(path.startswith(f"{each}/") for path in paths)]
    rows = [targets.UDO[name] for name in part.targets]
    sources = [path for path in paths if path.startswith(rooms) and path.endswith(".cpp")]
    own = {
        each.op: [path for path in sources if path.endswith((f"/{each.op}.cpp", f"{each.op}Interface.cpp"))]
        for each in parts
        if each.op
    }
    return record(
        name=backend,
        room=core.folder,
        ours=ours,
        library=part.library,
        module=part.library.removeprefix("lib").removesuffix(".so"),
        link=core.link,
        runtime=core.loaded_with,
        sources=[path for path in sources if not any(path in each for each in own.values())],
        op_sources=[record(op=op, sources=" ".join(each)) for op, each in own.items()],
        folders=folders,
        includes=" ".join(f"-I{each}" for each in folders),
        android=core.android,
        own_makefile=core.own_makefile,
        kernels=_kernels(kind, part, ours),
        udo=not kind.runs_ops,
        udo_root=names.make_path(package.snpe_udo_root) if not kind.runs_ops else "",
        api=f"{ours}/htp_core.mk" if part.api == "core" else "",
        architectures=[each for each in folder.architectures_of(backend) if each.name in [row.arch for row in rows]],
        targets=[each for row in rows for each in _goals(row, core, parts)],
        first=rows[0].id,
    )


def _kernels(kind: Kind, part: Part, ours: str) -> list[str]:
    """The texts that a library has in it besides C++; one of the user's own may be missing."""
    texts = kind.kernel_texts if isinstance(kind, Backend) else ()
    made = (text.format(utils=ours, folder=part.rooms[0], op=op) for text in texts for op in part.ops)
    return list(dict.fromkeys(made))


def _goals(row: Target, core: UdoCore, parts: Sequence[Part]) -> list[SimpleNamespace]:
    """What a core's Makefile makes for one target; for each op alone where each has a library of its own."""
    ndk = row.compiler == "android"
    if not parts[0].op:
        return [record(name=row.id, needs="", ndk=ndk, recipe=_recipe(row, core, parts[0]))]
    goals = [record(name=f"{row.id}_{part.op}", needs="", ndk=ndk, recipe=_recipe(row, core, part)) for part in parts]
    return [record(name=row.id, needs="".join(f" {goal.name}" for goal in goals), ndk=False, recipe=[]), *goals]


def _recipe(row: Target, core: UdoCore, part: Part) -> list[str]:
    """How a core's Makefile makes one target."""
    call = "@+$(MAKE) --no-print-directory -f"
    if row.arch:
        call += f" {_SDK}/makefiles/Makefile.hexagon HEXAGON={row.arch} LAYOUT_HEXAGON={row.folder}"
        if part.op:
            call += f' LIBRARY_NAME={part.library} LAYOUT_OBJ="$(LAYOUT_OBJ)/{part.op}"'
            call += f' SOURCES="$(SOURCES) $(SOURCES_{part.op})"'
        return [call]
    if row.compiler == "x86":
        own = "makefiles/Makefile.linux-x86_64"
        return [f"{call} {core.folder if core.own_makefile else _SDK}/{own}"]
    if row.compiler == "aarch64":
        return [f"{call} {_SDK}/makefiles/Makefile.linux-aarch64"]
    if row.compiler == "arm64":
        kind = "$(if $(ANDROID_NDK_ROOT),android,linux)"
        name = part.library.removesuffix(".so") + row.ending
        return [f"{call} {_SDK}/makefiles/Makefile.{kind}-aarch64 LIBRARY_NAME={name}.so"]
    made = f"obj/{part.backend}/android/libs/arm64-v8a"
    own = f"{core.folder}/makefiles" if part.backend in backends.ALL else "jni"
    call = f"$(call ndk_build,obj/{part.backend}/android,NDK_PROJECT_PATH=. APP_BUILD_SCRIPT={own}/Android.mk"
    call += f" NDK_APPLICATION_MK={own}/Application.mk NDK_OUT=obj/{part.backend}/android"
    call += f" NDK_LIBS_OUT=obj/{part.backend}/android/libs APP_ABI=arm64-v8a"
    call += f" APP_MODULES={part.library.removeprefix('lib').removesuffix('.so')})"
    # ndk-build empties its folder of libraries each time, so that cores cannot share one.
    copy = f'for made in {made}/*.so; do cp "$$made" libs/arm64-v8a/.new-$@ && mv libs/arm64-v8a/.new-$@'
    return [f"@+{call}", "@mkdir -p libs/arm64-v8a", f'@{copy} "libs/arm64-v8a/$${{made##*/}}" || exit 1; done']


def _root(cores: Sequence[SimpleNamespace]) -> dict[str, object]:
    """What the package's own Makefile offers: the documented targets, as far as there are cores for them."""
    offered = {target.name: core for core in cores for target in core.targets if target.name in targets.UDO}
    groups = targets.GROUPS["snpe"]
    wide = max(len(name) for name in offered) + 2
    lines = []
    for name, core in offered.items():
        row = targets.UDO[name]
        first = [_REACH.get(each, each) for each in groups.get(name, ()) if each != name]
        made = [f"libs/{each}/{core.library.removesuffix('.so')}{row.ending}.so" for each in row.folders]
        lines.append(
            record(
                name=name,
                gap=" " * (wide - len(name)),
                makes=" or ".join(made),
                makefile=f"{core.room}/Makefile",
                first=" ".join(first),
            )
        )
    listed = []
    for name, meant in groups.items():
        members = [_REACH.get(each, each) for each in meant if each in offered or each in _REACH]
        own = [each for each in members if not each.startswith(("reg_", "$"))]
        if name not in offered and name != "all" and (own or name.startswith(("reg", "all"))):
            listed.append(record(name=name, members=" ".join(members)))
    return {"targets": lines, "groups": listed, "names": " ".join([*offered, *(group.name for group in listed)])}


_REACH = {"reg_device": "$(REG_DEVICE)"}


def _root_files(data: Mapping[str, object]) -> list[PlannedFile]:
    shared = "qnn/shared/makefiles"
    return [
        PlannedFile("Makefile", template="snpe/Makefile.mako", data=data),
        PlannedFile("common.mk", copy=f"{shared}/linux.mk"),
        PlannedFile("jni/Android.mk", template="snpe/jni/Android.mk.mako", data=data),
        PlannedFile("jni/Application.mk", copy="qnn/cpu/makefiles/Application.mk"),
        *(
            PlannedFile(f"{_SDK}/makefiles/{name}", copy=f"{shared}/{name}")
            for name in ("Makefile.linux-x86_64", "Makefile.linux-aarch64", "ndk.mk")
        ),
    ]


def _core_files(core: SimpleNamespace, data: Mapping[str, object]) -> list[PlannedFile]:
    told = {**data, "core": core}
    files = [PlannedFile(f"{core.room}/Makefile", template="snpe/core/Makefile.mako", data=told)]
    if core.android and not core.udo:
        files += [
            PlannedFile(f"{core.room}/makefiles/Android.mk", template="snpe/core/Android.mk.mako", data=told),
            PlannedFile(f"{core.room}/makefiles/Application.mk", copy="qnn/cpu/makefiles/Application.mk"),
        ]
    if core.own_makefile:
        path = "makefiles/Makefile.linux-x86_64"
        files.append(PlannedFile(f"{core.room}/{path}", copy="snpe/core/Makefile.linux-x86_64"))
    return files
