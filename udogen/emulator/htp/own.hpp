// The calls that HTP has in a way of its own, by group; each is laid over those of the core, which it calls.
#pragma once

#include "calls.hpp"
#include "shared.hpp"

namespace emulator {

/// The calls of the core, before any was replaced.
extern QnnInterface_ImplementationV2_t core;

void fillDevices(QnnInterface_ImplementationV2_t& table);
void fillContexts(QnnInterface_ImplementationV2_t& table);
void fillBuffers(QnnInterface_ImplementationV2_t& table);
void fillGraphs(QnnInterface_ImplementationV2_t& table);

/// A device: one of those of this machine, or another processor that graphs are prepared for.
struct HtpDevice : Device {
  Processor processor;
};
/// Of a processor by its number; false where nobody knows it.
bool findSoc(std::uint32_t model, Processor& found);
/// The processor behind a device handle that may be null.
Processor processorOf(Qnn_DeviceHandle_t device);

/// What HTP keeps of a context.
inline HtpShared& sharedOf(const Context& context) { return static_cast<HtpShared&>(*context.shared); }

}  // namespace emulator
