// Sums over the last axis. Fault: threads add to one shared sum.
#include "ops/RowSums.hpp"

#include <atomic>
#include <thread>

namespace ops::FaultyPackage::RowSums {

udo::Status execute(const Args& args) {
  const std::size_t rows = args.x.shape()[0], width = args.x.shape()[1];
  static std::atomic<std::size_t> runs{0};
  const std::size_t run = runs++;  // threads on one core would take the same turns in each
  std::atomic<int> started{0};
  const auto part = [&](std::size_t first) {
    ++started;
    while (started < 4) std::this_thread::yield();  // otherwise one may end before the next begins
    for (std::size_t row = 0; row < rows; ++row) {
      volatile float* sum = args.y.data() + row;
      for (std::size_t i = first; i < width; i += 4) {
        const float before = *sum;
        if ((i / 4 + run) % (4 + run % 3) == 0) std::this_thread::yield();
        *sum = before + args.x[row * width + i];
      }
    }
  };
  for (std::size_t row = 0; row < rows; ++row) args.y[row] = 0;
  std::thread threads[] = {std::thread(part, 0), std::thread(part, 1), std::thread(part, 2), std::thread(part, 3)};
  for (std::thread& each : threads) each.join();
  return udo::ok;
}

}  // namespace ops::FaultyPackage::RowSums
