// Logs its arguments.
#include "ops/Tensors.hpp"
#include "tell.hpp"

namespace ops::KindsPackage::Tensors {

struct State {};

udo::Status prepare([[maybe_unused]] const Args& args, State&) {
  TELL_SHAPE(in_0);
  TELL_SHAPE(weights);
  TELL_SHAPE(default_);
  TELL_SHAPE(bias_0);
  TELL_SHAPE(out_0);
  TELL_SHAPE(class_);
  TELL_SHAPE(row);
  TELL_SHAPE(table);
  TELL_SHAPE(lacking);
  return udo::ok;
}

udo::Status execute(const Args& args) {
  TELL(in_0);
  TELL(weights);
  TELL(default_);
  TELL(bias_0);
  TELL(out_0);
  TELL(class_);
  TELL(row);
  TELL(table);
  TELL(cube);
  TELL(mask);
  TELL(bytes);
  TELL(lacking);
  TELL(any);
  TELL(anyway);
  TELL(needed);
  for (std::size_t i = 0; i < args.out_0.size(); ++i) args.out_0.setReal(i, args.in_0[i]);
  if (args.class_) {
    for (std::int32_t& each : args.class_) each = 7;
  }
  return udo::ok;
}

}  // namespace ops::KindsPackage::Tensors
