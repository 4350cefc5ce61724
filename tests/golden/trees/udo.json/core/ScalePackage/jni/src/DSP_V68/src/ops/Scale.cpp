// The HTP kernel of Scale, in the C++ style of the SDK.  This file is yours: udogen wrote it once and keeps your
// changes.
#include "ops/Scale.hpp"

namespace ops::ScalePackage::Scale {

template <class Output_0Type, class InType, class Input_1Type>
GraphStatus scaleImpl(
    [[maybe_unused]] Output_0Type& output_0,
    [[maybe_unused]] const InType& in,
    [[maybe_unused]] const Input_1Type& input_1,
    [[maybe_unused]] const Params& params) {
  // add code here; see .sdk/htp/include/ops/Scale.hpp for what it is given
  return udo::notWritten("Scale", "jni/src/DSP_V68/src/ops/Scale.cpp");
}

}  // namespace ops::ScalePackage::Scale

// Rewrites of the graph (DEF_PACKAGE_OPTIMIZATION) go here, and macros that the file below reads.

#include "ops/Scale.registration.hpp"
