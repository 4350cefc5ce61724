/* Ends with 0 if QEMU executes one kind of HVX floating point, QFLOAT or IEEE.  It needs no C library. */
typedef int Vector __attribute__((__vector_size__(128)));

__attribute__((target("hvx-qfloat,hvx-ieee-fp"))) void _start(void) {
  const Vector ones = (Vector){0} + 0x3f800000;
#ifdef IEEE
  const Vector sums = __builtin_HEXAGON_V6_vadd_sf_sf_128B(ones, ones);
#else
  const Vector sums = __builtin_HEXAGON_V6_vconv_sf_qf32_128B(__builtin_HEXAGON_V6_vadd_sf_128B(ones, ones));
#endif
  register int status __asm__("r0") = sums[0] == 0x40000000 ? 0 : 1;
  register int end __asm__("r6") = 94; /* exit_group */
  __asm__ volatile("trap0(#1)" : : "r"(status), "r"(end));
}
