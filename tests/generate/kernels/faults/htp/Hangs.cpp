#include "ops/Hangs.hpp"

namespace ops::FaultPackage::Hangs {

udo::Status execute([[maybe_unused]] const Args& args) {
  for (volatile bool again = true; again;) {
  }
  return udo::ok;
}

}  // namespace ops::FaultPackage::Hangs
