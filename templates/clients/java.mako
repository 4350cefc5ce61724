=== java java
% if for_snpe:
String folder = application.getApplicationInfo().nativeLibraryDir;
% for package in packages:
if (!SNPE.addOpPackage(application, folder + ${package.registration_file.java})) {
    throw new IllegalStateException(${package.not_registered.java});
}
% endfor
% else:
String folder = context.getApplicationInfo().nativeLibraryDir;
% for package in packages:
HashMap<String, String> ops${package.number} = new HashMap<>();
% for op in package.ops:
ops${package.number}.put(${op.java}, ${op.java});
% endfor
% endfor
QnnDelegate.Options options = new QnnDelegate.Options();
options.setBackendType(QnnDelegate.Options.BackendType.HTP_BACKEND);
options.setSkelLibraryDir(folder);
options.setOpPackageOptions(new QnnDelegate.OpPackageInfo[] {
% for package in packages:
% for library in package.libraries:
    new QnnDelegate.OpPackageInfo(${package.name.java},
        folder + ${library.in_folder.java},
        ${package.provider.java}, ${library.core.java}, ops${package.number}),
% endfor
% endfor
});
QnnDelegate delegate = new QnnDelegate(options);
% endif

=== files text
% for file, name in files:
${file} -> app/src/main/jniLibs/arm64-v8a/${name}
% endfor

=== manifest xml
<application android:extractNativeLibs="true">
    <uses-native-library android:name="libcdsprpc.so" android:required="false"/>
</application>
