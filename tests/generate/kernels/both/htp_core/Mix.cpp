// Copies real values; -99 is an error.  In the C++ style of the SDK, with its own cost and flags.
#include "ops/Mix.hpp"

namespace ops::BothPackage::Mix {

template <class YType, class XType>
GraphStatus mixImpl(YType& y, const XType& x, const Params&) {
  for (std::size_t i = 0; i < udo::count(x); ++i) {
    const float real = udo::real(x, i);
    if (real == -99.0f) return udo::fail("Mix does not like -99");
    udo::setReal(y, i, real);
  }
  return GraphStatus::Success;
}

}  // namespace ops::BothPackage::Mix

#define UDO_COST FAST
#define UDO_FLAGS Flags::RESOURCE_HVX, Flags::INHIBIT_CONST_PROP
#include "ops/Mix.registration.hpp"
