"""Android apps in Java or Kotlin: the QNN delegate of TFLite, or SNPE for packages in its layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from udogen.clients import rules
from udogen.clients.client import Client, ClientRule, Snippet
from udogen.clients.package import Package
from udogen.clients.programs import snpe, tflite
from udogen.clients.quoting import block, java

_MANIFEST = block("""
    <application android:extractNativeLibs="true">
        <uses-native-library android:name="libcdsprpc.so" android:required="false"/>
    </application>
""")


def _for_snpe(packages: Sequence[Package]) -> bool:
    return all(package.registration is not None for package in packages)


def _unless_snpe(rule: ClientRule) -> ClientRule:
    def faults(packages: Sequence[Package]) -> Iterator[str]:
        if not _for_snpe(packages):
            yield from rule.faults(packages)

    return rule._replace(faults=faults)


def _library_names(package: Package) -> str:
    odd = [each.name for each in package.libraries if not (each.name.startswith("lib") and each.name.endswith(".so"))]
    return "; ".join(f"the file {name} has no name of the form lib….so" for name in odd)


def _snippets(packages: Sequence[Package]) -> Iterator[Snippet]:
    yield from _snpe_snippets(packages) if _for_snpe(packages) else _delegate_snippets(packages)
    yield Snippet("manifest", "xml", _MANIFEST)


def _delegate_snippets(packages: Sequence[Package]) -> Iterator[Snippet]:
    infos, maps = [], []
    for number, package in enumerate(packages):
        maps.append(f"            HashMap<String, String> ops{number} = new HashMap<>();")
        maps += [f"            ops{number}.put({java(op)}, {java(op)});" for op in package.ops]
        infos += [
            f"                new QnnDelegate.OpPackageInfo({java(package.name)},\n"
            f"                    folder + {java('/' + library.name)},\n"
            f"                    {java(package.provider)}, {java(tflite.target(library.target))}, ops{number}),"
            for library in package.libraries
        ]
    yield Snippet(
        "java",
        "java",
        block(
            "            String folder = context.getApplicationInfo().nativeLibraryDir;\n"
            + "\n".join(maps)
            + """
            QnnDelegate.Options options = new QnnDelegate.Options();
            options.setBackendType(QnnDelegate.Options.BackendType.HTP_BACKEND);
            options.setSkelLibraryDir(folder);
            options.setOpPackageOptions(new QnnDelegate.OpPackageInfo[] {
"""
            + "\n".join(infos)
            + "\n            });\n            QnnDelegate delegate = new QnnDelegate(options);"
        ),
    )
    files = [(library.file, library.name) for package in packages for library in package.libraries]
    yield Snippet(
        "files", "text", "\n".join(f"{file} -> app/src/main/jniLibs/arm64-v8a/{name}" for file, name in files)
    )


def _snpe_snippets(packages: Sequence[Package]) -> Iterator[Snippet]:
    calls = "\n".join(
        f"            if (!SNPE.addOpPackage(application, folder + {java('/' + package.registration.name)})) {{\n"
        f"                throw new IllegalStateException({java(f'{package.name} was not registered')});\n"
        f"            }}"
        for package in packages
        if package.registration is not None
    )
    yield Snippet(
        "java",
        "java",
        block(f"""
            String folder = application.getApplicationInfo().nativeLibraryDir;
{calls}
        """),
    )
    files = [file for package in packages for file in snpe.all_libraries_of(package)]
    yield Snippet("files", "text", "\n".join(f"{file} -> app/src/main/jniLibs/arm64-v8a/{file.name}" for file in files))


CLIENT = Client(
    "java",
    "Java on Android",
    "QNN SDK 2.25, docs/QNN/TFLiteDelegate/java_interface.html; SNPE 2.25, running_model_with_udo.html",
    (
        rules.android_only("an Android app loads only libraries for Android", "--android with --target v75"),
        *(_unless_snpe(rule) for rule in tflite.RULES),
        rules.each_package(
            "library-names",
            _library_names,
            "the installer unpacks only lib*.so from an APK",
            "build it under such a name",
        ),
        snpe.BUILT,
    ),
    _snippets,
    lambda packages: [
        *([] if _for_snpe(packages) else tflite.defaults(packages)),
        "libraries must be unpacked as files: extractNativeLibs, or useLegacyPackaging in Gradle",
    ],
)
