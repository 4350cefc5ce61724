// Misbehaves as `k` requests, and logs its state.
#include "ops/Nasty.hpp"

#include <stdexcept>

#include "tell.hpp"

namespace ops::NastyPackage::Nasty {

struct State {
  int executed = 0;
  ~State() { tell("freed after", std::to_string(executed)); }
};

udo::Status prepare(const Args& args, State&) {
  if (args.k == 3.0f) return udo::error("prepare refuses k = %g, 100%% sure", static_cast<double>(args.k));
  if (args.k == 4.0f) throw std::runtime_error("thrown by prepare");
  return udo::ok;
}

udo::Status execute(const Args& args, State& state) {
  tell("executed", std::to_string(++state.executed));
  if (args.k == 2.0f) throw std::runtime_error("thrown by execute");
  if (args.k == 5.0f) return udo::error("execute refuses");
  if (args.k == 6.0f) return 4711;
  for (float& each : args.y) each = args.x.quantization().scale;
  return udo::ok;
}

}  // namespace ops::NastyPackage::Nasty
