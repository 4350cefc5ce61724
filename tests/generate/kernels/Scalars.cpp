// Logs its arguments.
#include "ops/Scalars.hpp"
#include "tell.hpp"

namespace ops::KindsPackage::Scalars {

udo::Status execute(const Args& args) {
  TELL(x);
  TELL(f32);
  TELL(f16);
  TELL(f64);
  TELL(yes);
  TELL(no);
  TELL(i8);
  TELL(u8);
  TELL(i16);
  TELL(u16);
  TELL(i32);
  TELL(u32);
  TELL(i64);
  TELL(odd64);
  TELL(top64);
  TELL(u64);
  TELL(infinite);
  TELL(none);
  TELL(tiny);
  TELL(huge);
  TELL(hex);
  TELL(mixed);
  TELL(wide);
  TELL(fixed);
  TELL(must);
  TELL(must_or);
  TELL(has_maybe);
  TELL(maybe);
  TELL(has_flag);
  TELL(flag);
  TELL(has_later);
  TELL(later);
  TELL(zero_d);
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = args.x[i] * args.f32;
  return udo::ok;
}

}  // namespace ops::KindsPackage::Scalars
