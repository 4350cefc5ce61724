#include <cstdint>
extern "C" __attribute__((visibility("default"))) int SnpeUdo_initRegLibrary() { return 0; }
