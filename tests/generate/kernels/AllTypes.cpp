// Logs its arguments.
#include "ops/AllTypes.hpp"
#include "tell.hpp"

namespace ops::NastyPackage::AllTypes {

udo::Status execute(const Args& args) {
  TELL(x);
  TELL(y);
  TELL(p);
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y.setReal(i, args.x.real(i));
  return udo::ok;
}

}  // namespace ops::NastyPackage::AllTypes
