#include "ops/Scaled.hpp"

namespace ops::OrderPackage::Scaled {
namespace {

struct Ready {
  float times;
  float plus;
};

udo::Status prepare(const Args& args, Ready& ready) {
  ready = {args.times, args.plus};
  return udo::ok;
}

udo::Status scale(const Args& args, const Ready& ready) {
  for (std::size_t i = 0; i < args.x.size(); ++i) args.y[i] = args.x[i] * ready.times + ready.plus;
  return udo::ok;
}

udo::Shape steps(const udo::Node&) { return {1, 8, udo::whole, udo::whole}; }

}  // namespace

udo::Status execute(const Args&) { return udo::error("the kernel that is prepared was not used"); }

void hooks(Hooks& op) {
  op.kernel<prepare, scale>();
  op.tiles<steps>();
}

}  // namespace ops::OrderPackage::Scaled
