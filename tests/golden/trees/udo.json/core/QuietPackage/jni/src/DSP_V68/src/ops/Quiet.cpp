// The HTP kernel of Quiet, in the C++ style of the SDK.  This file is yours: udogen wrote it once and keeps your
// changes.
#include "ops/Quiet.hpp"

namespace ops::QuietPackage::Quiet {

template <class YType, class XType>
GraphStatus quietImpl(
    [[maybe_unused]] YType& y,
    [[maybe_unused]] const XType& x,
    [[maybe_unused]] const Params& params) {
  // add code here; see .sdk/htp/include/ops/Quiet.hpp for what it is given
  return udo::notWritten("Quiet", "jni/src/DSP_V68/src/ops/Quiet.cpp");
}

}  // namespace ops::QuietPackage::Quiet

// Rewrites of the graph (DEF_PACKAGE_OPTIMIZATION) go here, and macros that the file below reads.

#include "ops/Quiet.registration.hpp"
