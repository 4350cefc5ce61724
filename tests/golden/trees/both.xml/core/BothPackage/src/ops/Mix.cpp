// The HTP kernel of Mix, in the C++ style of the SDK.  This file is yours: udogen wrote it once and keeps your
// changes.
#include "ops/Mix.hpp"

namespace ops::BothPackage::Mix {

template <class YType, class XType>
GraphStatus mixImpl(
    [[maybe_unused]] YType& y,
    [[maybe_unused]] const XType& x,
    [[maybe_unused]] const Params& params) {
  // add code here; see include/ops/Mix.hpp for what it is given
  return udo::notWritten("Mix", "src/ops/Mix.cpp");
}

}  // namespace ops::BothPackage::Mix

// Rewrites of the graph (DEF_PACKAGE_OPTIMIZATION) go here, and macros that the file below reads.

#include "ops/Mix.registration.hpp"
