=== flag sh
${flag}

=== flag-on-device sh
% if flag_on_device:
${flag_on_device}
% endif

=== cpp cpp
litert::qualcomm::QualcommOptions::CustomOpPackage package;
% for name, text in fields:
package.${name} = ${text.cpp};
% endfor
options.SetCustomOpPackage(package);
