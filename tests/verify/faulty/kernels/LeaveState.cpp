// x, and the state that it was called in first. Fault: leaves another floating-point state; `how` is its row below.
#include "ops/LeaveState.hpp"

#ifdef __x86_64__
#include <cfenv>

#include <xmmintrin.h>
#endif

namespace ops::FaultyPackage::LeaveState {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = args.x[i];
#ifdef __x86_64__
  args.y[0] = static_cast<std::uint8_t>((_mm_getcsr() & ~0x3FU) >> 6);  // 126 in the default state
  unsigned short x87 = 0;
  __asm__ volatile("fnstcw %0" : "=m"(x87));
  switch (args.how) {
    case 1: _mm_setcsr(_mm_getcsr() | 0x6000); break;
    case 2: _mm_setcsr(_mm_getcsr() | 0x8000); break;
    case 3: _mm_setcsr(_mm_getcsr() | 0x0040); break;
    case 4: _mm_setcsr(_mm_getcsr() & ~0x0800U); break;
    case 5: x87 &= 0xFCFF; break;
    case 6: std::fesetround(FE_UPWARD); return udo::ok;
    case 7: std::feraiseexcept(FE_INEXACT); return udo::ok;
    default: break;
  }
  __asm__ volatile("fldcw %0" : : "m"(x87));
#endif
  return udo::ok;
}

}  // namespace ops::FaultyPackage::LeaveState
