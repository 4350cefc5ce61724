// a / b. Fault: b / a.
#include "ops/Divide.hpp"

namespace ops::FaultyPackage::Divide {

udo::Status finalize(const Args&, State*&) { return udo::ok; }

udo::Status execute(const Args& args, State*) {
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = args.b[i] / args.a[i];
  return udo::ok;
}

void free(State*) {}

}  // namespace ops::FaultyPackage::Divide
