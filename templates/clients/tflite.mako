=== cpp cpp
% for package in packages:
// The model's custom op, and the op of the package.
static TfLiteQnnDelegateOpPackageOpMap ops${package.number}[] = {
% for op in package.ops:
    {${op.cpp}, ${op.cpp}},
% endfor
};
% endfor
static TfLiteQnnDelegateOpPackageInfo infos[] = {
% for package in packages:
% for library in package.libraries:
    {${package.name.cpp}, ${library.path.cpp},
     ${package.provider.cpp}, ${library.core.cpp}, ${package.op_count}, ops${package.number}},
% endfor
% endfor
};
TfLiteQnnDelegateOptions options = TfLiteQnnDelegateOptionsDefault();
options.backend_type = kHtpBackend;
options.op_package_options.num_op_package_infos = sizeof infos / sizeof *infos;
options.op_package_options.op_package_infos = infos;
TfLiteDelegate* delegate = TfLiteQnnDelegateCreate(&options);
