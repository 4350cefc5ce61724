=== flag sh
${option}

=== command sh
snpe-net-run --container model.dlc --input_list inputs.txt ${option}${core}

=== c c
#include "DlSystem/DlError.h"
#include "SNPE/SNPEUtil.h"

/* Once in each process, before the network is built; returns SNPE_SUCCESS, or the first code that is not.
   SNPEFactory.hpp compares with it; the comment in SNPEUtil.h calls 0 a failure. */
int add_op_packages(void) {
  static const char* const paths[] = {
% for package in packages:
      ${package.registration.cpp},
% endfor
  };
  for (unsigned i = 0; i < sizeof paths / sizeof *paths; ++i) {
    const int code = Snpe_Util_AddOpPackage(paths[i]);
    if (code != SNPE_SUCCESS) {
      return code;
    }
  }
  return SNPE_SUCCESS;
}
