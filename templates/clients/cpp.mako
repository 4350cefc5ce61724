=== cpp cpp
% if for_snpe:
#include <initializer_list>

#include "SNPE/SNPEFactory.hpp"

// Once in each process, before the network is built.
bool add_op_packages() {
  for (const char* path : {
% for package in packages:
      ${package.registration.cpp},
% endfor
  }) {
    if (!zdl::SNPE::SNPEFactory::addOpPackage(path)) {
      return false;
    }
  }
  return true;
}
% else:
#include "QnnInterface.h"

// Once for each backend handle, before contexts are made or restored.
% if calls_runtime:
// ${runtime} must be opened with dlopen(…, RTLD_NOW | RTLD_GLOBAL).
% endif
// `register_one` is backendRegisterOpPackage of the interface.
Qnn_ErrorHandle_t register_op_packages(QnnBackend_RegisterOpPackageFn_t register_one,
                                       Qnn_BackendHandle_t backend) {
  const struct {
    const char* path;
    const char* provider;
    const char* target;
  } packages[] = {
% for package in packages:
% for library in package.libraries:
% if library.target:
    {${library.path.cpp}, ${package.provider.cpp}, ${library.target.cpp}},
% else:
    {${library.path.cpp}, ${package.provider.cpp}, nullptr},
% endif
% endfor
% endfor
  };
  for (const auto& each : packages) {
    const Qnn_ErrorHandle_t code = register_one(backend, each.path, each.provider, each.target);
    if (code != QNN_SUCCESS) {
      return code;  // see `udogen explain`
    }
  }
  return QNN_SUCCESS;
}
% endif
