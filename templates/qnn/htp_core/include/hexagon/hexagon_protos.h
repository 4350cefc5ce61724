// Auto-generated part of every op package that udogen generates for the C++ style of HTP; regenerating rewrites this file.
//
// The headers of the SDK use Hexagon intrinsics on every machine.  On a PC they come from libnative of the Hexagon
// tools (HEXAGON_TOOLS_ROOT); without it this header is enough for kernels without HVX.  The scalar ones do what their
// names suggest.  The vector ones are only declared: a kernel that uses one compiles, but does not load.
#pragma once

#include <math.h>
#include <stdint.h>

#include "hexagon_types.h"

namespace udo_hexagon {

inline int clamp(int value, int low, int high) { return value < low ? low : value > high ? high : value; }

}  // namespace udo_hexagon

inline int Q6_R_max_RR(int a, int b) { return a > b ? a : b; }
inline int Q6_R_min_RR(int a, int b) { return a < b ? a : b; }
inline unsigned Q6_R_maxu_RR(unsigned a, unsigned b) { return a > b ? a : b; }
inline unsigned Q6_R_minu_RR(unsigned a, unsigned b) { return a < b ? a : b; }
inline int Q6_R_satb_R(int value) { return udo_hexagon::clamp(value, INT8_MIN, INT8_MAX); }
inline int Q6_R_satub_R(int value) { return udo_hexagon::clamp(value, 0, UINT8_MAX); }
inline int Q6_R_sath_R(int value) { return udo_hexagon::clamp(value, INT16_MIN, INT16_MAX); }
inline int Q6_R_satuh_R(int value) { return udo_hexagon::clamp(value, 0, UINT16_MAX); }

inline int Q6_R_add_RR_sat(int a, int b) {
  const int64_t sum = static_cast<int64_t>(a) + b;
  return static_cast<int>(sum < INT32_MIN ? INT32_MIN : sum > INT32_MAX ? INT32_MAX : sum);
}

// Out of range they return the nearest representable number, as the processor does; rounding is to nearest even.
inline unsigned Q6_R_convert_sf2uw_R_chop(float value) {
  return !(value > 0.0f) ? 0u : value >= 4294967296.0f ? UINT32_MAX : static_cast<unsigned>(value);
}
inline unsigned Q6_R_convert_sf2uw_R(float value) { return Q6_R_convert_sf2uw_R_chop(rintf(value)); }
inline int Q6_R_convert_sf2w_R(float value) {
  const float whole = rintf(value);
  return whole >= 2147483648.0f ? INT32_MAX : !(whole >= -2147483648.0f) ? INT32_MIN : static_cast<int>(whole);
}
inline long long Q6_P_convert_sf2d_R(float value) {
  const float whole = rintf(value);
  return whole >= 9223372036854775808.0f    ? INT64_MAX
         : !(whole >= -9223372036854775808.0f) ? INT64_MIN
                                               : static_cast<long long>(whole);
}
inline unsigned long long Q6_P_convert_sf2ud_R(float value) {
  const float whole = rintf(value);
  return !(whole > 0.0f) ? 0u : whole >= 18446744073709551616.0f ? UINT64_MAX : static_cast<unsigned long long>(whole);
}

#define UDO_HVX(RESULT, NAME) \
  template <class... Arguments> \
  RESULT NAME(Arguments...);

UDO_HVX(HVX_Vector, Q6_V_hi_W)
UDO_HVX(HVX_Vector, Q6_V_lo_W)
UDO_HVX(HVX_Vector, Q6_V_vand_QR)
UDO_HVX(HVX_Vector, Q6_V_vand_QV)
UDO_HVX(HVX_Vector, Q6_V_vand_QnV)
UDO_HVX(HVX_Vector, Q6_V_vand_VV)
UDO_HVX(HVX_Vector, Q6_V_vlalign_VVR)
UDO_HVX(HVX_Vector, Q6_V_vmux_QVV)
UDO_HVX(HVX_Vector, Q6_V_vnot_V)
UDO_HVX(HVX_Vector, Q6_V_vor_VV)
UDO_HVX(HVX_Vector, Q6_V_vror_VR)
UDO_HVX(HVX_Vector, Q6_V_vsplat_R)
UDO_HVX(HVX_Vector, Q6_V_vxor_VV)
UDO_HVX(HVX_Vector, Q6_V_vzero)
UDO_HVX(HVX_Vector, Q6_Vh_equals_Vhf)
UDO_HVX(HVX_Vector, Q6_Vh_vadd_VhVh)
UDO_HVX(HVX_Vector, Q6_Vh_vlut4_VuhPh)
UDO_HVX(HVX_Vector, Q6_Vh_vround_VwVw_sat)
UDO_HVX(HVX_Vector, Q6_Vh_vsat_VwVw)
UDO_HVX(HVX_Vector, Q6_Vh_vshuffe_VhVh)
UDO_HVX(HVX_Vector, Q6_Vh_vshuffo_VhVh)
UDO_HVX(HVX_Vector, Q6_Vh_vsplat_R)
UDO_HVX(HVX_Vector, Q6_Vqf32_equals_Vsf)
UDO_HVX(HVX_Vector, Q6_Vqf32_from_int)
UDO_HVX(HVX_Vector, Q6_Vqf32_vadd_Vqf32Vsf)
UDO_HVX(HVX_Vector, Q6_Vqf32_vadd_VsfVsf)
UDO_HVX(HVX_Vector, Q6_Vsf_equals_Vqf32)
UDO_HVX(HVX_Vector, Q6_Vsf_equals_Vw)
UDO_HVX(HVX_Vector, Q6_Vuh_vasr_VwVwR_rnd_sat)
UDO_HVX(HVX_Vector, Q6_Vuh_vasr_VwVwR_sat)
UDO_HVX(HVX_Vector, Q6_Vuh_vasr_WwVuh_rnd_sat)
UDO_HVX(HVX_Vector, Q6_Vuw_vabsdiff_VwVw)
UDO_HVX(HVX_Vector, Q6_Vuw_vcl0_Vuw)
UDO_HVX(HVX_Vector, Q6_Vuw_vlsr_VuwR)
UDO_HVX(HVX_Vector, Q6_Vuw_vsub_VuwVuw_sat)
UDO_HVX(HVX_Vector, Q6_Vw_condacc_QVwVw)
UDO_HVX(HVX_Vector, Q6_Vw_equals_Vsf)
UDO_HVX(HVX_Vector, Q6_Vw_vadd_VwVw)
UDO_HVX(HVX_Vector, Q6_Vw_vadd_VwVwQ_carry)
UDO_HVX(HVX_Vector, Q6_Vw_vasl_VwR)
UDO_HVX(HVX_Vector, Q6_Vw_vasl_VwVw)
UDO_HVX(HVX_Vector, Q6_Vw_vasr_VwR)
UDO_HVX(HVX_Vector, Q6_Vw_vasr_VwVw)
UDO_HVX(HVX_Vector, Q6_Vw_vavg_VwVw)
UDO_HVX(HVX_Vector, Q6_Vw_vavg_VwVw_rnd)
UDO_HVX(HVX_Vector, Q6_Vw_vlsr_VwVw)
UDO_HVX(HVX_Vector, Q6_Vw_vmax_VwVw)
UDO_HVX(HVX_Vector, Q6_Vw_vmpye_VwVuh)
UDO_HVX(HVX_Vector, Q6_Vw_vmpyoacc_VwVwVh_s1_rnd_sat_shift)
UDO_HVX(HVX_Vector, Q6_Vw_vmpyoacc_VwVwVh_s1_sat_shift)
UDO_HVX(HVX_Vector, Q6_Vw_vnormamt_Vw)
UDO_HVX(HVX_Vector, Q6_Vw_vsub_VwVw)
UDO_HVX(HVX_Vector, Q6_Vw_vsub_VwVwQ_carry)
UDO_HVX(HVX_Vector, Q6_Vw_vsub_VwVw_sat)

UDO_HVX(HVX_VectorPair, Q6_W_vcombine_VV)
UDO_HVX(HVX_VectorPair, Q6_Wqf32_vmpy_VhfVhf)

UDO_HVX(HVX_VectorPred, Q6_Q_or_QQn)
UDO_HVX(HVX_VectorPred, Q6_Q_vcmp_eq_VbVb)
UDO_HVX(HVX_VectorPred, Q6_Q_vcmp_eq_VwVw)
UDO_HVX(HVX_VectorPred, Q6_Q_vcmp_gt_VhVh)
UDO_HVX(HVX_VectorPred, Q6_Q_vcmp_gt_VubVub)
UDO_HVX(HVX_VectorPred, Q6_Q_vcmp_gt_VuhVuh)
UDO_HVX(HVX_VectorPred, Q6_Q_vcmp_gt_VuwVuw)
UDO_HVX(HVX_VectorPred, Q6_Q_vcmp_gt_VwVw)
UDO_HVX(HVX_VectorPred, Q6_Q_vsetq2_R)
UDO_HVX(HVX_VectorPred, Q6_Q_vsetq_R)

UDO_HVX(void, Q6_vmaskedstorentnq_QAV)
UDO_HVX(void, Q6_vmaskedstorentq_QAV)
UDO_HVX(void, Q6_vmem_QRIV)

#undef UDO_HVX
