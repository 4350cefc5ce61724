// AddSatU8 on DSP V65/V66: 128 bytes at once, on the worker threads, to which the vector unit belongs.
#include "ops/AddSatU8.hpp"

#if defined(__HVX__)
#include <hexagon_protos.h>
#include <hexagon_types.h>
#endif

namespace ops::AddSatU8Package::AddSatU8 {

namespace {

constexpr std::uint32_t threads = 2;
constexpr std::size_t vector = 128;

void addScalar(const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* sum, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned whole = static_cast<unsigned>(a[i]) + b[i];
    sum[i] = static_cast<std::uint8_t>(whole < 255 ? whole : 255);
  }
}

// Tensors need not begin at a multiple of 128 bytes.
void add(const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* sum, std::size_t count) {
  std::size_t done = 0;
#if defined(__HVX__)
  const auto* from = reinterpret_cast<const HVX_UVector*>(a);
  const auto* and_ = reinterpret_cast<const HVX_UVector*>(b);
  auto* to = reinterpret_cast<HVX_UVector*>(sum);
  for (; done + vector <= count; done += vector) *to++ = Q6_Vub_vadd_VubVub_sat(*from++, *and_++);
#endif
  addScalar(a + done, b + done, sum + done, count - done);
}

}  // namespace

udo::Status execute(const Args& args, udo::Dsp& dsp) {
  if (args.b.shape() != args.a.shape() || args.sum.shape() != args.a.shape()) {
    return udo::error("a, b and sum must have one shape");
  }
  return dsp.run(threads, [&](std::uint32_t thread, std::uint32_t number) {
    const auto [begin, end] = udo::Dsp::part(args.a.size(), vector, thread, number);
    add(args.a.data() + begin, args.b.data() + begin, args.sum.data() + begin, end - begin);
    return udo::ok;
  });
}

}  // namespace ops::AddSatU8Package::AddSatU8
