// A registration library with one fault, chosen with -D.
#include <stdlib.h>
#include <unistd.h>

#include "SnpeUdo/UdoReg.h"

static SnpeUdo_RegInfo_t info;
#ifndef MINOR
#define MINOR 6
#endif
static SnpeUdo_LibVersion_t version = {{1, 0, 0}, {1, MINOR, 0}};

// As in API 1.3: without the infos of tensors.
typedef struct {
  SnpeUdo_String_t operationType;
  SnpeUdo_Bitmask_t supportedByCores;
  uint32_t numOfStaticParams;
  SnpeUdo_Param_t *staticParams;
  uint32_t numOfInputs;
  SnpeUdo_String_t *inputNames;
  uint32_t numOfOutputs;
  SnpeUdo_String_t *outputNames;
  uint32_t numOfCoreInfo;
  SnpeUdo_OpCoreInfo_t *opPerCoreInfo;
} Old;

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
#if MINOR < 6
  static SnpeUdo_String_t names[] = {"a", "b"};
  static Old old[2] = {{"First", 1, 0, 0, 2, names, 1, names, 0, 0}, {"Second", 1, 0, 0, 1, names, 2, names, 0, 0}};
  info.numOfOperations = 2;
  info.operationsInfo = (SnpeUdo_OperationInfo_t *)(void *)old;
#endif
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
