// Allocates while it executes: a vector that grows, three calls below `execute`.
#include "ops/LeakyRelu.hpp"

#include <vector>

namespace ops::LeakyReluPackage::LeakyRelu {

struct State {};

namespace {
void keep(std::vector<float>& seen, float x) {
  seen.push_back(x);  // here
}
void look(std::vector<float>& seen, const float* in, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) keep(seen, in[i]);
}
float largest(const float* in, std::size_t size) {
  std::vector<float> seen;
  look(seen, in, size);
  float most = seen[0];
  for (float x : seen) most = x > most ? x : most;
  return most;
}
}  // namespace

udo::Status finalize(const Args&, State*&) { return udo::ok; }

udo::Status execute(const Args& args, State*) {
  const std::size_t size = args.input.size();
  const float* in = args.input.data<float>();
  float* out = args.output.data<float>();
  const float most = largest(in, size);
  for (std::size_t i = 0; i < size; ++i) out[i] = in[i] > 0.0f ? in[i] : args.alpha * in[i] + 0.0f * most;
  return udo::ok;
}

void free(State*) {}

}  // namespace ops::LeakyReluPackage::LeakyRelu
