// Logs its arguments.
#include "ops/Many.hpp"
#include "tell.hpp"

namespace ops::NastyPackage::Many {

struct State {};

udo::Status prepare([[maybe_unused]] const Args& args, State&) {
  tell("prepare parts", std::to_string(args.parts.size()));
  return udo::ok;
}

udo::Status execute(const Args& args) {
  TELL(first);
  TELL(parts);
  TELL(bias);
  TELL(copies);
  for (std::size_t k = 0; k < args.copies.size(); ++k) {
    for (std::size_t i = 0; i < args.copies[k].size(); ++i) args.copies[k].setReal(i, args.parts[0][i] + static_cast<float>(k));
  }
  return udo::ok;
}

}  // namespace ops::NastyPackage::Many
