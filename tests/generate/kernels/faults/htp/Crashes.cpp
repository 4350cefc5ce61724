#include "ops/Crashes.hpp"

namespace ops::FaultPackage::Crashes {

udo::Status execute([[maybe_unused]] const Args& args) {
  volatile int* nowhere = nullptr;
  *nowhere = 1;
  return udo::ok;
}

}  // namespace ops::FaultPackage::Crashes
