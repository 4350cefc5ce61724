// Parameters of every kind, and an optional input.
#include <cstring>

#include "ops/Scale.hpp"

namespace ops::Several::Scale {

struct State {
  float factor;
};

udo::Status prepare(const Args& args, State& state) {
  state.factor = args.factor * (args.sign == sign_enum::minus ? -1.0f : 1.0f);
  return std::strcmp(args.mode, "never") == 0 ? udo::error("mode `never` is refused") : udo::ok;
}

udo::Status execute(const Args& args, const State& state) {
  const bool halved = std::strcmp(args.mode, "half") == 0;
  for (std::size_t i = 0; i < args.x.size(); ++i) {
    const float shift = static_cast<float>(args.shift[i % args.shift.size()]);
    const float bias = args.bias ? args.bias[i % args.bias.size()] : 0.0f;
    args.y[i] = (args.x[i] * state.factor + shift + bias) * (halved ? 0.5f : 1.0f);
  }
  return udo::ok;
}

}  // namespace ops::Several::Scale
