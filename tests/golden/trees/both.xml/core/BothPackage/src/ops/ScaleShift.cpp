// The HTP kernel of ScaleShift, in the C++ style of the SDK.  This file is yours: udogen wrote it once and keeps your
// changes.
#include "ops/ScaleShift.hpp"

namespace ops::BothPackage::ScaleShift {

template <class Out_0Type, class Out_1Type, class In_0Type, class In_1Type>
GraphStatus scaleshiftImpl(
    [[maybe_unused]] Out_0Type& out_0,
    [[maybe_unused]] Out_1Type& out_1,
    [[maybe_unused]] const In_0Type& in_0,
    [[maybe_unused]] const In_1Type& in_1,
    [[maybe_unused]] const Params& params) {
  // add code here; see include/ops/ScaleShift.hpp for what it is given
  return udo::notWritten("ScaleShift", "src/ops/ScaleShift.cpp");
}

}  // namespace ops::BothPackage::ScaleShift

// Rewrites of the graph (DEF_PACKAGE_OPTIMIZATION) go here, and macros that the file below reads.

#include "ops/ScaleShift.registration.hpp"
