// x + 1. Fault: adds the number of calls so far.
#include "ops/CountCalls.hpp"

namespace ops::FaultyPackage::CountCalls {

udo::Status execute(const Args& args) {
  static std::uint8_t calls = 0;
  ++calls;
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = static_cast<std::uint8_t>(args.x[i] + calls);
  return udo::ok;
}

}  // namespace ops::FaultyPackage::CountCalls
