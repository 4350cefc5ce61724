// The HTP kernel of ${op.name}, in the C++ style of the SDK.  This file is yours: udogen wrote it once and keeps your
// changes.
#include "ops/${op.name}.hpp"

namespace ops::${package.name}::${op.name} {

template <${op.template_list}>
GraphStatus ${op.impl}(
    ${op.unused_signature}) {
  // add code here; see ${op.header} for what it is given
  return udo::notWritten("${op.name}", "${op.kernel}");
}

}  // namespace ops::${package.name}::${op.name}

// Rewrites of the graph (DEF_PACKAGE_OPTIMIZATION) go here, and macros that the file below reads.

#include "ops/${op.name}.registration.hpp"
