// AddSatU8 on HTP: a kernel for HVX, 128 bytes at once and cut into slices for its threads, and a scalar one.
#include "ops/AddSatU8.hpp"

#if defined(__HVX__)
#include <hexagon_protos.h>
#include <hexagon_types.h>
#endif

namespace ops::AddSatU8Package::AddSatU8 {
namespace {

bool sameShapes(const Args& args) { return args.b.shape() == args.a.shape() && args.sum.shape() == args.a.shape(); }

void addScalar(const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* sum, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned whole = static_cast<unsigned>(a[i]) + b[i];
    sum[i] = static_cast<std::uint8_t>(whole < 255 ? whole : 255);
  }
}

constexpr std::size_t vector = 128;

#if defined(__HVX__)
bool isAligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % vector == 0; }

template <class Vector>
void addWhole(const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* sum, std::size_t vectors) {
  const auto* from = reinterpret_cast<const Vector*>(a);
  const auto* and_ = reinterpret_cast<const Vector*>(b);
  auto* to = reinterpret_cast<Vector*>(sum);
  for (std::size_t i = 0; i < vectors; ++i) to[i] = Q6_Vub_vadd_VubVub_sat(from[i], and_[i]);
}

// A tensor need not be aligned if a graph cuts it into parts; unaligned vectors take twice the packets.
void addVectors(const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* sum, std::size_t count) {
  const std::size_t vectors = count / vector;
  if (isAligned(a) && isAligned(b) && isAligned(sum)) {
    addWhole<HVX_Vector>(a, b, sum, vectors);
  } else {
    addWhole<HVX_UVector>(a, b, sum, vectors);
  }
  const std::size_t done = vectors * vector;
  addScalar(a + done, b + done, sum + done, count - done);
}
#else
// Without HVX, as in the emulator on a PC.
void addVectors(const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* sum, std::size_t count) {
  addScalar(a, b, sum, count);
}
#endif

udo::Status addSlice(const Args& args, const udo::Slice& slice) {
  if (!sameShapes(args)) return udo::error("a, b and sum must have one shape");
  const auto [begin, end] = slice.of(args.a.size(), vector);
  addVectors(args.a.data() + begin, args.b.data() + begin, args.sum.data() + begin, end - begin);
  return udo::ok;
}

float vectors(const udo::Inputs& inputs) {
  return static_cast<float>(inputs[Tensor::a].shape().count()) / static_cast<float>(vector);
}

float bytes(const udo::Inputs& inputs) { return static_cast<float>(inputs[Tensor::a].shape().count()); }

}  // namespace

udo::Status execute(const Args& args) {
  if (!sameShapes(args)) return udo::error("a, b and sum must have one shape");
  addScalar(args.a.data(), args.b.data(), args.sum.data(), args.a.size());
  return udo::ok;
}

// HTP takes the first kernel whose unit it has.
void hooks(Hooks& op) {
  op.kernel<addSlice>().on(udo::Unit::hvx).costs<vectors>();
  op.kernel<execute>().on(udo::Unit::main).costs<bytes>();
}

}  // namespace ops::AddSatU8Package::AddSatU8
