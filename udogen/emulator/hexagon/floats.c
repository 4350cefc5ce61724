/* Ends with 0 if QEMU executes one kind of HVX floating point, QFLOAT or IEEE: it adds floats, and converts half floats.
 * The last bits of qfloat may differ.  It needs no C library. */
#define HVX(name) __builtin_HEXAGON_V6_##name##_128B
typedef int Vector __attribute__((__vector_size__(128)));

__attribute__((target("hvx-qfloat,hvx-ieee-fp"))) void _start(void) {
  const Vector ones = (Vector){0} + 0x3f800000, halves = (Vector){0} + 0x3c003c00;
#ifdef IEEE
  const Vector sums = HVX(vadd_sf_sf)(ones, HVX(lo)(HVX(vcvt_sf_hf)(halves)));
  const Vector products = HVX(vcvt_hf_sf)(ones, ones);
#else
  const Vector sums = HVX(vconv_sf_qf32)(HVX(vadd_sf)(ones, ones));
  const Vector products = HVX(vconv_hf_qf32)(HVX(vmpy_qf32_hf)(halves, halves));
#endif
  register int status __asm__("r0") = ((sums[0] + 4) & ~7) == 0x40000000 && products[0] == 0x3c003c00 ? 0 : 1;
  register int end __asm__("r6") = 94; /* exit_group */
  __asm__ volatile("trap0(#1)" : : "r"(status), "r"(end));
}
