// Everything that a kernel must not do.
#include "ops/Fault.hpp"

#include <cstdlib>

namespace ops::Faults::Fault {

udo::Status execute(const Args& args, udo::Dsp& dsp) {
  switch (args.what) {
    case what_enum::fails: return udo::error("number %d is not wanted", 7);
    case what_enum::crashes: *reinterpret_cast<volatile int*>(8) = 1; break;
    case what_enum::hangs:
      for (volatile bool forever = true; forever;) {
      }
      break;
    case what_enum::overruns: args.y.data()[args.y.size()] = 1; break;
    case what_enum::uses_heap: {
      void* volatile memory = std::malloc(args.x.size());
      std::free(memory);
      break;
    }
    case what_enum::throws: throw 1;
    case what_enum::fails_in_worker:
      return dsp.run(3, [](std::uint32_t thread, std::uint32_t) {
        return thread == 1 ? udo::error("worker %u is tired", static_cast<unsigned>(thread)) : udo::ok;
      });
    case what_enum::grows: return dsp.resize(args.y, {1, 1, 1, 1u << 20});
    default: break;
  }
  for (std::size_t i = 0; i < args.x.size(); ++i) args.y[i] = args.x[i];
  return udo::ok;
}

}  // namespace ops::Faults::Fault
