#include "ops/Fails.hpp"

namespace ops::FaultPackage::Fails {

udo::Status execute([[maybe_unused]] const Args& args) {
  return udo::error("three is no number");
}

}  // namespace ops::FaultPackage::Fails
