// Logs its arguments.
#include "ops/Words.hpp"
#include "tell.hpp"

namespace ops::KindsPackage::Words {

udo::Status execute(const Args& args) {
  TELL(mode);
  TELL(side);
  TELL(has_unset_);
  TELL(unset);
  TELL(long_);
  TELL(mode_enum);
  TELL(has_unset);
  TELL(text);
  TELL(has_plain);
  TELL(plain);
  TELL(given);
  tell("named", args.mode == mode_enum_t::nearest ? "nearest" : args.mode == mode_enum_t::bilinear ? "bilinear" : "default");
  for (float& each : args.y) each = 0.0f;
  return udo::ok;
}

}  // namespace ops::KindsPackage::Words
