"""Kernels of LeakyRelu, each with one fault that numbers do not show; the faulty line ends in `// here`."""

from __future__ import annotations

from dataclasses import dataclass

_KERNEL = """\
#include "ops/LeakyRelu.hpp"

#include <cstdlib>
#include <vector>

namespace ops::LeakyReluPackage::LeakyRelu {

struct State {
  float* kept = nullptr;
  ~State() {
    delete[] kept;
  }
};

namespace {
[[maybe_unused]] float leaky(float x, float alpha) { return x > 0.0f ? x : alpha * x; }
@HELPERS@
}  // namespace

udo::Status prepare(const Args&, State& state) {
  state.kept = new float[16]();  // kept
  return udo::ok;
}

udo::Status execute(const Args& args, [[maybe_unused]] State& state) {
  const std::size_t size = args.input.size();
  [[maybe_unused]] const float* in = args.input.data<float>();
  [[maybe_unused]] float* out = args.output.data<float>();
  for (std::size_t i = 0; i < size; ++i) out[i] = leaky(in[i], args.alpha);
@EXECUTE@
  return udo::ok;
}

}  // namespace ops::LeakyReluPackage::LeakyRelu
"""


@dataclass(frozen=True)
class Unsafe:
    """The code that is inserted into the kernel."""

    execute: str = ""
    helpers: str = ""

    @property
    def source(self) -> str:
        """The kernel."""
        parts = {"@HELPERS@": self.helpers, "@EXECUTE@": self.execute}
        text = _KERNEL
        for mark, part in parts.items():
            text = text.replace(mark, part.strip("\n"))
        return text

    def line(self, mark: str = "// here") -> int:
        """Return the line of the fault."""
        return 1 + next(index for index, line in enumerate(self.source.splitlines()) if line.endswith(mark))


KERNELS = {
    "sound": Unsafe(),
    # A vector that grows, three calls below `execute`.
    "grows": Unsafe(
        helpers="""
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
""",
        execute="  out[0] += 0.0f * largest(in, size);",
    ),
    "first only": Unsafe(
        execute="""
  static void* volatile kept = std::malloc(100);  // here
  out[0] += kept == nullptr ? 1.0f : 0.0f;
"""
    ),
    "reads past": Unsafe(execute="  out[0] += 0.0f * *const_cast<const volatile float*>(in + size);  // here"),
    "reads before": Unsafe(execute="  out[0] += 0.0f * *const_cast<const volatile float*>(in - 1);  // here"),
    "writes past": Unsafe(execute="  const_cast<volatile float*>(out)[size] = 1.0f;  // here"),
    "writes before": Unsafe(execute="  const_cast<volatile float*>(out)[-1] = 1.0f;  // here"),
    "writes input": Unsafe(execute="  const_cast<volatile float*>(in)[1] = in[0];  // here"),
    "overflows": Unsafe(
        helpers="int scaled(int x) { return x * 65536; }  // here",
        execute="  out[0] += 0.0f * static_cast<float>(scaled(static_cast<int>(size) * 4096));",
    ),
    # State that two graphs of the op share, without a lock.
    "shares": Unsafe(
        helpers="volatile float shared_scratch = 0.0f;",
        execute="""
  for (std::size_t i = 0; i < size; ++i) {
    shared_scratch = in[i];  // here
    out[i] = leaky(shared_scratch, args.alpha);
  }
""",
    ),
}
