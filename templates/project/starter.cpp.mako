// The kernel of ${op} for CPU, HTP and DSP: y = factor * x, for every data type of the config.
#include "ops/${op}.hpp"

namespace ops::${package}::${op} {

// Called at every execution; must not allocate from the heap.
udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y.setReal(i, args.factor * args.x.real(i));
  return udo::ok;
}

}  // namespace ops::${package}::${op}
