#include "ops/Throws.hpp"

namespace ops::FaultPackage::Throws {

udo::Status execute([[maybe_unused]] const Args& args) {
  throw "a text";
}

}  // namespace ops::FaultPackage::Throws
