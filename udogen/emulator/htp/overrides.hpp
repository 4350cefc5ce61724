// The calls that HTP implements itself, by group; they replace those of the core, which they call.
#pragma once

#include "calls.hpp"
#include "context_memory.hpp"

namespace emulator {

/// The calls of the core, before any was replaced.
extern QnnInterface_ImplementationV2_t core;

void fillDevices(QnnInterface_ImplementationV2_t& table);
void fillContexts(QnnInterface_ImplementationV2_t& table);
void fillBuffers(QnnInterface_ImplementationV2_t& table);

/// The memory of a context.
inline ContextMemory& memoryOf(const Context& context) { return static_cast<ContextMemory&>(*context.shared); }

}  // namespace emulator
