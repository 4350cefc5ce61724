// Writes its parameters to its outputs; in the C++ style of the SDK.
#include "ops/ScaleShift.hpp"

namespace ops::BothPackage::ScaleShift {

template <class Out0Type, class Out1Type, class In0Type, class In1Type>
GraphStatus scaleshiftImpl(Out0Type& sum, Out1Type& seen, const In0Type& in0, const In1Type& in1,
                           const Params& params) {
  const float sevenWhen = udo::real(in1, 0);
  for (std::size_t i = 0; i < udo::count(in0); ++i) udo::setReal(sum, i, udo::real(in0, i) + sevenWhen);
  const std::size_t last = params.weights.size() - 1;
  const float values[] = {params.weights[0],
                          params.weights[last],
                          static_cast<float>(params.mode),
                          params.flag ? 1.0f : 0.0f,
                          params.has_shift ? 1.0f : 0.0f,
                          static_cast<float>(params.shift),
                          static_cast<float>(udo::count(in1))};
  for (std::size_t i = 0; i < udo::count(seen) && i < 7; ++i) udo::setReal(seen, i, values[i]);
  return GraphStatus::Success;
}

}  // namespace ops::BothPackage::ScaleShift

#include "ops/ScaleShift.registration.hpp"
