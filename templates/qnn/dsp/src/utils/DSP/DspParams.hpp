// Auto-generated part of every op package that udogen generates for the DSP backend (V65, V66); regenerating rewrites this file.
//
// Compares tensors and parameters of the DSP with the config, and copies parameters.
#pragma once

#include <cstdint>

#include "BackendUtils.hpp"
#include "DSP/QnnDspOpPackage.h"

namespace udo {

struct Factory;

/// Logs an error, and returns the code for the DSP.
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
Udo_ErrorType_t refuse(Udo_ErrorType_t code, const char* format, ...);

/// Whether a tensor that the DSP reports as this type is stored as one of the config's types.
bool isOneOf(Udo_DataType_t type, List<Qnn_DataType_t> types);

/// Whether a tensor has the only value that is supported.
bool isDefault(const OnlyValue& only, const Udo_TensorParam_t& tensor, List<Qnn_DataType_t> types);

std::uint32_t bytesOf(const Udo_TensorParam_t& tensor, const std::uint32_t* dims);

/// Compares the parameters of a client with the config.
Udo_ErrorType_t checkParams(List<ParamSpec> specs, std::uint32_t count, const Udo_Param_t* params);

/// Copies the parameters into one block of the DSP's memory; nullptr if no memory is left.
Factory* copyParams(const Udo_HexNNv2GlobalInfra_t& dsp, std::uint32_t count, const Udo_Param_t* params);

}  // namespace udo
