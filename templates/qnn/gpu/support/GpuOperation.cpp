#include <cstdio>
#include <cstring>
#include <limits>

namespace udo {
namespace {

// Every OpenCL compiler accepts a group of one; the best larger size depends on the device.  64 is a wave of Adreno.
constexpr std::size_t usualGroup = 64;

std::uint32_t fitting(std::size_t number) {
  return number > std::numeric_limits<std::uint32_t>::max() ? 0 : static_cast<std::uint32_t>(number);
}

}  // namespace

std::uint64_t hashOf(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char each : text) hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3u;
  return hash;
}

Quantization Tensor::quantization() const {
  const Qnn_QuantizeParams_t& params = facts_->raw->v1.quantizeParams;
  Quantization found;
  if (params.encodingDefinition == QNN_DEFINITION_DEFINED && isFixedPoint()) {
    encodingOf(params, found.scale, found.offset);
  }
  return found;
}

// --- a kernel -------------------------------------------------------------------------------------------------

Kernel& Kernel::globalSize(std::size_t x, std::size_t y, std::size_t z) {
  if (x == 0 || y == 0 || z == 0) status_ = error("kernel %s: a global size of zero", entry_);
  kernel_.globalWorkDim = 3;
  const std::size_t sizes[] = {x, y, z};
  std::memcpy(kernel_.globalWorkSizes, sizes, sizeof sizes);
  return *this;
}

Kernel& Kernel::localSize(std::size_t x, std::size_t y, std::size_t z) {
  kernel_.localWorkDim = 3;
  const std::size_t sizes[] = {x, y, z};
  std::memcpy(kernel_.localWorkSizes, sizes, sizeof sizes);
  hasLocal_ = true;
  return *this;
}

QnnGpu_KernelArg_t* Kernel::next(QnnGpu_KernelArgType_t type) {
  if (count_ == most) {
    status_ = error("kernel %s has more than %zu arguments", entry_, most);
    return nullptr;
  }
  QnnGpu_KernelArg_t* const arg = &args_[count_];
  pointers_[count_++] = arg;
  arg->type = type;
  return arg;
}

Kernel& Kernel::tensor(const Tensor& tensor, const char* what) {
  const TensorFacts* const facts = tensor.facts();
  if (facts == nullptr) {
    next(QNN_GPU_KERNEL_ARG_TYPE_NULL_PTR);
    return *this;
  }
  if (facts->argument == QNN_GPU_KERNEL_ARG_TYPE_NULL_PTR) {
    status_ = error("kernel %s: the default of `%s` is no memory of the GPU; read it with data() and pass its values",
                    entry_, facts->name);
    return *this;
  }
  if (facts->memory != QNN_GPU_MEM_OBJ_TYPE_BUFFER && facts->memory != QNN_GPU_MEM_OBJ_TYPE_IMAGE2D) {
    status_ = error("kernel %s: %s `%s` is memory of the kind %d; only buffers and 2D images are known to this package",
                    entry_, what, facts->name, static_cast<int>(facts->memory));
    return *this;
  }
  if (QnnGpu_KernelArg_t* const arg = next(facts->argument)) arg->tensor.tensorIndex = facts->index;
  return *this;
}

Kernel& Kernel::read(const Input& given) { return tensor(given, "input"); }
Kernel& Kernel::write(const Output& given) { return tensor(given, "output"); }

Kernel& Kernel::internal(Scratch scratch, QnnGpu_KernelArgType_t type) {
  if (QnnGpu_KernelArg_t* const arg = next(type)) arg->tensor.tensorIndex = scratch.index;
  return *this;
}

Kernel& Kernel::local(std::size_t bytes) {
  if (QnnGpu_KernelArg_t* const arg = next(QNN_GPU_KERNEL_ARG_TYPE_LOCAL)) arg->local.size = fitting(bytes);
  return *this;
}

Kernel& Kernel::data(QnnGpu_DataKernelArgType_t type, const void* value, std::size_t bytes) {
  if (QnnGpu_KernelArg_t* const arg = next(QNN_GPU_KERNEL_ARG_TYPE_DATA)) {
    arg->data.type = type;
    std::memcpy(&arg->data.qnnULong, value, bytes);
  }
  return *this;
}

Kernel& Kernel::size(std::size_t number) {
  if (number != fitting(number)) status_ = error("kernel %s: %zu does not fit into uint", entry_, number);
  return value(fitting(number));
}

// --- an operation ---------------------------------------------------------------------------------------------

Kernel& Operation::kernel(const char* entry) {
  if (kernels_ == mostKernels) {
    status_ = error("has more than %zu kernels", mostKernels);
    return kernel_[mostKernels - 1];
  }
  Kernel& made = kernel_[kernels_++];
  made.entry_ = entry;
  return made;
}

Scratch Operation::scratch(Qnn_DataType_t type, std::size_t count) {
  if (scratches_ == mostScratch || fitting(count) == 0) {
    status_ = error("asks for more than %zu buffers, or for one of %zu elements", mostScratch, count);
    return Scratch{0};
  }
  Memory& memory = scratch_[scratches_];
  memory.dims[0] = fitting(count);
  memory.object.type = QNN_GPU_MEM_OBJ_TYPE_BUFFER;
  memory.object.dataType = type;
  memory.object.dimensions = memory.dims;
  memory.object.offsets = memory.offsets;
  memory.object.numDimensions = 1;
  memory.object.layout = QNN_GPU_MEM_LAYOUT_UNDEFINED;
  scratchPointers_[scratches_] = &memory.object;
  return Scratch{static_cast<std::uint32_t>(scratches_++)};
}

Operation::Memory& Operation::claim(const TensorFacts& output, std::uint32_t dims) {
  std::size_t at = 0;
  while (at < claims_ && claim_[at].outputIndex != output.index) ++at;
  if (at == claims_) ++claims_;
  Memory& memory = claimed_[at];
  memory.object.dataType = output.stored;
  memory.object.dimensions = memory.dims;
  memory.object.offsets = memory.offsets;
  memory.object.numDimensions = dims;
  claim_[at].outputIndex = output.index;
  claim_[at].memoryObject = &memory.object;
  claimPointers_[at] = &claim_[at];
  return memory;
}

bool Operation::claimImage(const Output& output, std::size_t height, std::size_t width) {
  if (!output || !output.facts()->claimable || !output.isFloat()) return false;
  auto& facts = facts_[static_cast<std::size_t>(output.facts() - facts_)];
  if (height * width * 4 != output.size()) {
    status_ = error("output `%s`: an image of %zux%zu holds %zu elements, the tensor has %zu", facts.name, height, width,
                    height * width * 4, output.size());
    return false;
  }
  facts.memory = QNN_GPU_MEM_OBJ_TYPE_IMAGE2D;
  facts.height = fitting(height);
  facts.width = fitting(width);
  Memory& memory = claim(facts, 2);
  memory.object.type = QNN_GPU_MEM_OBJ_TYPE_IMAGE2D;
  memory.object.layout = QNN_GPU_MEM_LAYOUT_HWC;
  memory.dims[0] = facts.height;
  memory.dims[1] = facts.width;
  return true;
}

// Each NATIVE output becomes a plain buffer unless the op claims an image: by default the backend would make it an
// image.
void Operation::claimBuffers(const TensorFacts* outputs, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!outputs[i].claimable) continue;
    Memory& memory = claim(outputs[i], 1);
    memory.object.type = QNN_GPU_MEM_OBJ_TYPE_BUFFER;
    memory.object.layout = QNN_GPU_MEM_LAYOUT_UNDEFINED;
    memory.dims[0] = fitting(Output(&outputs[i]).size());
  }
}

Status Operation::finish(const char* prelude, const char* text, const char* file, const std::string& types) {
  if (kernels_ == 0 && status_ == ok) status_ = error("asks for no kernel");
  for (std::size_t i = 0; i < kernels_ && status_ == ok; ++i) {
    Kernel& made = kernel_[i];
    if (made.status_ != ok) return made.status_;
    if (made.kernel_.globalWorkDim == 0) return error("kernel %s has no global size", made.entry_);
    if (!made.hasLocal_) {
      std::size_t group = usualGroup;
      while (made.kernel_.globalWorkSizes[0] % group != 0) group /= 2;
      made.localSize(group);
    }
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::size_t group = made.kernel_.localWorkSizes[axis];
      if (group == 0 || made.kernel_.globalWorkSizes[axis] % group != 0) {
        return error("kernel %s: local size %zu does not divide global size %zu", made.entry_, group,
                     made.kernel_.globalWorkSizes[axis]);
      }
    }
    const bool own = made.text_ != nullptr;
    if (!own && *text == '\0') {
      return error("kernel %s: %s does not exist, and source() gave no text", made.entry_, file);
    }
    // The backend identifies programs by the kernel's name alone: another text must have another name.
    const std::string body = types + prelude + (own ? "#line 1\n" : "#line 1 \"" + std::string(file) + "\"\n") +
                             (own ? made.text_ : text);
    char unique[24];
    std::snprintf(unique, sizeof unique, "_%016llx", static_cast<unsigned long long>(hashOf(body + made.options_)));
    made.name_ = made.entry_ + std::string(unique);
    made.built_ = "#define " + std::string(made.entry_) + " " + made.name_ + "\n" + body;
    made.kernel_.kernelSource = made.built_.c_str();
    made.kernel_.sourceLength = made.built_.size();
    made.kernel_.sourceType = QNN_GPU_KERNEL_SOURCE_TYPE_TEXT;
    made.kernel_.buildOptions = made.options_;
    made.kernel_.args = made.pointers_;
    made.kernel_.name = made.name_.c_str();
    kernelPointers_[i] = &made.kernel_;
  }
  operation_.kernels = kernelPointers_;
  operation_.memoryObjects = scratches_ == 0 ? nullptr : scratchPointers_;
  operation_.outputClaims = claims_ == 0 ? nullptr : claimPointers_;
  return status_;
}

}  // namespace udo
