#include "on_host.hpp"

#include <cstring>

#include "elements.hpp"

namespace emulator {

/// The tensor's data as the graph describes it, regardless of how the node before stored it: halves, or an image.
cl_int OnHost::fetch(ClDevice& device, Side& side) {
  std::vector<unsigned char> stored(side.memory->bytes());
  const cl_int code = side.memory->read(device, stored.data());
  if (code != CL_SUCCESS) return code;
  device.cl.clFinish(device.queue.get());
  const bool halves = side.memory->object().dataType == QNN_DATATYPE_FLOAT_16;
  side.bytes.resize(side.tensor->bytes());
  if (halves == (side.tensor->dataType() == QNN_DATATYPE_FLOAT_16)) {
    std::memcpy(side.bytes.data(), stored.data(), side.bytes.size());
    return CL_SUCCESS;
  }
  for (std::size_t i = 0; i < side.tensor->elements(); ++i) {
    if (halves) {
      std::uint16_t half = 0;
      std::memcpy(&half, stored.data() + i * sizeof half, sizeof half);
      const float value = floatOfHalf(half);
      std::memcpy(side.bytes.data() + i * sizeof value, &value, sizeof value);
    } else {
      float value = 0.0f;
      std::memcpy(&value, stored.data() + i * sizeof value, sizeof value);
      const std::uint16_t half = halfOfFloat(value);
      std::memcpy(side.bytes.data() + i * sizeof half, &half, sizeof half);
    }
  }
  return CL_SUCCESS;
}

cl_int OnHost::run(ClDevice& device) {
  std::vector<const void*> from;
  std::vector<void*> to;
  for (Side& each : inputs_) {
    const cl_int code = each.memory == nullptr ? CL_SUCCESS : fetch(device, each);
    if (code != CL_SUCCESS) return code;
    from.push_back(each.memory == nullptr ? nullptr : each.bytes.data());
  }
  for (Side& each : outputs_) {
    each.bytes.resize(each.tensor->bytes());
    to.push_back(each.bytes.data());
  }
  op_->execute(from.data(), to.data());
  for (const Side& each : outputs_) {
    const cl_int code = each.memory->write(device, each.bytes.data());
    if (code != CL_SUCCESS) return code;
  }
  return device.cl.clFinish(device.queue.get());
}

}  // namespace emulator
