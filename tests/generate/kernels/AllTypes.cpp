// Tells what it is given.
#include "ops/AllTypes.hpp"
#include "tell.hpp"

namespace ops::NastyPackage::AllTypes {

struct State {};

udo::Status finalize([[maybe_unused]] const Args& args, State*&) {
  return udo::ok;
}

udo::Status execute(const Args& args, State*) {
  TELL(x);
  TELL(y);
  TELL(p);
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y.setReal(i, args.x.real(i));
  return udo::ok;
}

void free(State* state) { delete state; }

}  // namespace ops::NastyPackage::AllTypes
