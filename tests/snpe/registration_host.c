/* An independent host of registration libraries: loads one as documented by SNPE, and prints its content.
 *
 *     cc -std=c11 -Wall -Wextra -Werror -I udogen/qnn/include registration_host.c -o registration_host -ldl
 *     ./registration_host libUdo<Package>Reg.so
 *
 * Prints `library CORE NAME` for each implementation library and `op NAME CORE…` for each operation. */
#include <dlfcn.h>
#include <stdio.h>

#include "SnpeUdo/UdoReg.h"

static void print_cores(SnpeUdo_Bitmask_t cores) {
  if (cores & SNPE_UDO_CORETYPE_CPU) printf(" CPU");
  if (cores & SNPE_UDO_CORETYPE_GPU) printf(" GPU");
  if (cores & SNPE_UDO_CORETYPE_DSP) printf(" DSP");
}

static void *function(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (found == NULL) fprintf(stderr, "%s is missing\n", name);
  return found;
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  SnpeUdo_InitRegLibraryFunction_t init;
  SnpeUdo_GetRegInfoFunction_t info;
  SnpeUdo_TerminateRegLibraryFunction_t terminate;
  *(void **)&init = function(library, "SnpeUdo_initRegLibrary");
  *(void **)&info = function(library, "SnpeUdo_getRegInfo");
  *(void **)&terminate = function(library, "SnpeUdo_terminateRegLibrary");
  if (init == NULL || info == NULL || terminate == NULL) return 1;

  SnpeUdo_RegInfo_t *package = NULL;
  if (init() != SNPE_UDO_NO_ERROR || info(&package) != SNPE_UDO_NO_ERROR || package == NULL) return 1;
  for (uint32_t i = 0; i < package->numOfImplementationLib; ++i) {
    printf("library");
    print_cores(package->implementationLib[i].udoCoreType);
    printf(" %s\n", package->implementationLib[i].libraryName);
  }
  for (uint32_t i = 0; i < package->numOfOperations; ++i) {
    printf("op %s", package->operationsInfo[i].operationType);
    print_cores(package->operationsInfo[i].supportedByCores);
    printf("\n");
  }
  const int ended = terminate() == SNPE_UDO_NO_ERROR;
  dlclose(library);
  return ended ? 0 : 1;
}
