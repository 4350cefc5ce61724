// A registration library that does one thing wrong, chosen with -D.
#include <stdlib.h>
#include <unistd.h>

#include "SnpeUdo/UdoReg.h"

static SnpeUdo_RegInfo_t info;
static SnpeUdo_LibVersion_t version = {{1, 0, 0}, {1, 6, 0}};

SnpeUdo_ErrorType_t SnpeUdo_initRegLibrary(void) {
#ifdef CRASHES
  *(volatile int *)0 = 1;
#endif
#ifdef HANGS
  for (;;) sleep(1);
#endif
#ifdef LEAVES
  exit(3);
#endif
#ifdef REFUSES
  return SNPE_UDO_MEM_ALLOC_ERROR;
#endif
  return SNPE_UDO_NO_ERROR;
}
SnpeUdo_ErrorType_t SnpeUdo_terminateRegLibrary(void) { return SNPE_UDO_NO_ERROR; }
SnpeUdo_ErrorType_t SnpeUdo_getVersion(SnpeUdo_LibVersion_t **out) {
  *out = &version;
  return SNPE_UDO_NO_ERROR;
}
SnpeUdo_ErrorType_t SnpeUdo_getRegInfo(SnpeUdo_RegInfo_t **out) {
  static SnpeUdo_OperationInfo_t op;
  static SnpeUdo_LibraryInfo_t library = {SNPE_UDO_CORETYPE_CPU, "libUdoThingImplCpu.so"};
  op.operationType = "Thing";
  op.supportedByCores = SNPE_UDO_CORETYPE_CPU;
#ifdef LYING
  op.numOfInputs = 3;
#endif
  info.packageName = "Thing";
  info.supportedCoreTypes = SNPE_UDO_CORETYPE_CPU;
  info.numOfImplementationLib = 1;
#ifdef FOLDER
  library.libraryName = FOLDER;
#endif
  info.implementationLib = &library;
  info.numOfOperations = 1;
  info.operationsInfo = &op;
#ifdef SILENT
  return (void)out, SNPE_UDO_NO_ERROR;
#else
  *out = &info;
  return SNPE_UDO_NO_ERROR;
#endif
}
#ifndef INCOMPLETE
SnpeUdo_ErrorType_t SnpeUdo_validateOperation(SnpeUdo_OpDefinition_t *definition) {
  return definition ? SNPE_UDO_NO_ERROR : SNPE_UDO_INVALID_ARGUMENT;
}
#endif
