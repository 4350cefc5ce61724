// Bytes in reverse order, through VTCM; each thread has a part, and all of them wait for each other in between.
#include "ops/Mirror.hpp"

namespace ops::Several::Mirror {

udo::Status execute(const Args& args, udo::Dsp& dsp) {
  const udo::Vtcm vtcm = dsp.vtcm();
  const std::size_t size = args.x.size();
  if (vtcm.data == nullptr || vtcm.size < size) return udo::error("VTCM has %zu bytes, %zu are wanted", vtcm.size, size);
  auto* const fast = static_cast<std::uint8_t*>(vtcm.data);
  std::uint32_t arrived = 0;
  return dsp.run(4, [&](std::uint32_t thread, std::uint32_t threads) {
    const auto [begin, end] = udo::Dsp::part(size, 1, thread, threads);
    for (std::size_t i = begin; i < end; ++i) fast[i] = args.x[i];
    __atomic_fetch_add(&arrived, 1u, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) != threads) {
    }
    for (std::size_t i = begin; i < end; ++i) args.y[i] = fast[size - 1 - i];
    return udo::ok;
  });
}

}  // namespace ops::Several::Mirror
