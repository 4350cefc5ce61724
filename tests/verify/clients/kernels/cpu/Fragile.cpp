#include "ops/Fragile.hpp"

#include <csignal>

namespace ops::ClientsPackage::Fragile {

struct State {};

udo::Status prepare(const Args& args, State&) {
  return args.limit < 0 ? udo::error("limit is %d; it must be 0 or more", args.limit) : udo::ok;
}

udo::Status execute(const Args& args) {
  if (args.x[0] == 12.0f) return udo::error("12 is no good");
  if (args.x[0] == 13.0f) std::raise(SIGSEGV);
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = args.x[i];
  return udo::ok;
}

}  // namespace ops::ClientsPackage::Fragile
