// The C++ side of an op: its tensors, as far as they are known before an execution, and the kernels for the backend.
// The backend compiles and executes them: no code of this side runs during an execution.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "GPU/QnnGpuOpPackage.h"

#define UDO_GPU 1

namespace udo {

/// A tensor of the node: its position, and how the GPU stores it.
struct TensorFacts {
  const Qnn_Tensor_t* raw = nullptr;  // null: left out
  const char* name = nullptr;         // in OpenCL
  std::uint32_t index = 0;            // among inputs, outputs or parameters
  QnnGpu_KernelArgType_t argument = QNN_GPU_KERNEL_ARG_TYPE_NULL_PTR;
  Qnn_DataType_t stored = QNN_DATATYPE_UNDEFINED;
  QnnGpu_MemoryObjectType_t memory = QNN_GPU_MEM_OBJ_TYPE_BUFFER;
  std::uint32_t height = 0;  // of an image
  std::uint32_t width = 0;
  bool claimable = false;  // a NATIVE output: the op chooses how it is stored
};

/// What inputs, outputs and tensor parameters have in common.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(const TensorFacts* facts) : facts_(facts != nullptr && facts->raw != nullptr ? facts : nullptr) {}

  /// False for an optional tensor that the client left out.
  explicit operator bool() const { return facts_ != nullptr; }

  Shape shape() const { return Shape(facts_->raw->v1.dimensions, facts_->raw->v1.rank); }
  std::size_t size() const { return shape().count(); }

  /// How the GPU stores an element.  The backend chooses between FLOAT_16 and FLOAT_32.
  Qnn_DataType_t type() const { return facts_->stored; }
  bool isFloat() const { return type() == QNN_DATATYPE_FLOAT_32 || type() == QNN_DATATYPE_FLOAT_16; }
  bool isHalf() const { return type() == QNN_DATATYPE_FLOAT_16; }
  bool isFixedPoint() const { return (type() & 0xff00) == 0x0300 || (type() & 0xff00) == 0x0400; }
  bool isImage() const { return facts_->memory == QNN_GPU_MEM_OBJ_TYPE_IMAGE2D; }

  /// Scale and offset of a fixed-point tensor; scale 1 and offset 0 for every other one.
  Quantization quantization() const;

  /// True for a default: its numbers are in data(), and not in memory of the GPU.
  bool isDefault() const { return facts_->argument == QNN_GPU_KERNEL_ARG_TYPE_NULL_PTR; }

  /// The data that the client passed with the graph, in memory of the CPU; null for a tensor that comes with an
  /// execution.
  template <class T>
  const T* data() const {
    return static_cast<const T*>(facts_->raw->v1.clientBuf.data);
  }

  const TensorFacts* facts() const { return facts_; }

 private:
  const TensorFacts* facts_ = nullptr;
};

class Input : public Tensor {
 public:
  using Tensor::Tensor;
};

class Output : public Tensor {
 public:
  using Tensor::Tensor;
};

/// A repeated input or output: a variable number of tensors.
template <class V>
class Repeated {
 public:
  Repeated() = default;
  Repeated(const TensorFacts* first, std::size_t count) : first_(first), count_(count) {}
  std::size_t size() const { return count_; }
  V operator[](std::size_t index) const { return V(first_ + index); }

 private:
  const TensorFacts* first_ = nullptr;
  std::size_t count_ = 0;
};

/// Memory of the GPU between the kernels of one op.
struct Scratch {
  std::uint32_t index;
};

class Operation;

/// One kernel: its work sizes, and its arguments in the order of its parameters in OpenCL.
class Kernel {
 public:
  /// The number of work items.
  Kernel& globalSize(std::size_t x, std::size_t y = 1, std::size_t z = 1);
  /// The number of work items in a work group; each must divide its global size.  By default udogen chooses it.
  Kernel& localSize(std::size_t x, std::size_t y = 1, std::size_t z = 1);

  /// An input or a tensor parameter; a null pointer if it was left out.
  Kernel& read(const Input& tensor);
  Kernel& write(const Output& tensor);
  /// Memory between kernels of this op, written by one and read by another.
  Kernel& read(Scratch scratch) { return internal(scratch, QNN_GPU_KERNEL_ARG_TYPE_INTERNAL_READ); }
  Kernel& write(Scratch scratch) { return internal(scratch, QNN_GPU_KERNEL_ARG_TYPE_INTERNAL_WRITE); }
  Kernel& readWrite(Scratch scratch) { return internal(scratch, QNN_GPU_KERNEL_ARG_TYPE_INTERNAL_READWRITE); }
  /// Local memory for each work group, in bytes.
  Kernel& local(std::size_t bytes);

  /// A number, as the OpenCL type of its size; bool becomes int, double float, size_t uint (it must fit).
  template <class T>
  Kernel& value(T number) {
    if constexpr (std::is_enum_v<T>) {
      return value(static_cast<std::underlying_type_t<T>>(number));
    } else if constexpr (std::is_same_v<T, bool>) {
      return value(static_cast<std::int32_t>(number));
    } else {
      static_assert(std::is_arithmetic_v<T>, "an argument by value is a number");
      return number_(number);
    }
  }
  Kernel& size(std::size_t number);

  /// Text of the kernel, if it is not in the op's .cl file; it must live as long as the package.
  Kernel& source(const char* text) { return text_ = text, *this; }
  /// Options of the OpenCL compiler, such as -cl-fast-relaxed-math; they, too, must live as long as the package.
  Kernel& options(const char* text) { return options_ = text, *this; }

 private:
  friend class Operation;
  static constexpr std::size_t most = 64;

  Kernel& internal(Scratch scratch, QnnGpu_KernelArgType_t type);
  Kernel& tensor(const Tensor& tensor, const char* what);
  QnnGpu_KernelArg_t* next(QnnGpu_KernelArgType_t type);
  Kernel& data(QnnGpu_DataKernelArgType_t type, const void* value, std::size_t bytes);
  template <class T>
  Kernel& number_(T number);

  const char* entry_ = nullptr;
  const char* text_ = nullptr;
  const char* options_ = "";
  Status status_ = ok;
  std::size_t count_ = 0;
  bool hasLocal_ = false;
  QnnGpu_KernelArg_t args_[most] = {};
  QnnGpu_KernelArg_t* pointers_[most + 1] = {};
  QnnGpu_Kernel_t kernel_ = {};
  std::string built_;  // the whole text, its name and its options, once they are known
  std::string name_;
};

template <class T>
Kernel& Kernel::number_(T number) {
  if constexpr (std::is_floating_point_v<T>) {
    const auto single = static_cast<float>(number);
    return data(QNN_GPU_KERNEL_ARG_CL_TYPE_FLOAT, &single, sizeof single);
  } else {
    constexpr int log = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 2 : sizeof(T) == 4 ? 4 : 6;
    constexpr auto type = static_cast<QnnGpu_DataKernelArgType_t>(log + (std::is_unsigned_v<T> ? 1 : 0));
    return data(type, &number, sizeof number);
  }
}

/// The kernels and the memory of one node of a graph.
class Operation {
 public:
  /// The next kernel of the op: the function of this name in the op's .cl file.
  Kernel& kernel(const char* entry);

  /// Memory for `count` elements of a type, between the kernels of this op.
  Scratch scratch(Qnn_DataType_t type, std::size_t count);

  /// Makes an output an image of `height` x `width` pixels of four elements, if the backend leaves the choice (the
  /// tensor connects two ops of floats); call it before the kernels are named.  Returns whether the output becomes an
  /// image.
  bool claimImage(const Output& output, std::size_t height, std::size_t width);

  /// An op that exceeds these limits is refused with a message.
  static constexpr std::size_t mostKernels = 32, mostScratch = 16, mostTensors = 64;

 private:
  friend Qnn_ErrorHandle_t createOpImpl(QnnOpPackage_GraphInfrastructure_t, QnnOpPackage_Node_t, QnnOpPackage_OpImpl_t*);

  // With zeros after the object: releases of the SDK differ in what follows `layout`, and all accept zeros there.
  struct Memory {
    QnnGpu_MemoryObject_t object = {};
    unsigned char more[64] = {};
    std::uint32_t dims[2] = {};
    std::uint32_t offsets[2] = {};
  };

  void claimBuffers(const TensorFacts* outputs, std::size_t count);
  Memory& claim(const TensorFacts& output, std::uint32_t dims);
  Status finish(const char* prelude, const char* text, const char* file, const std::string& types);

  QnnGpu_Operation_t operation_ = {};  // first: the backend passes it back when the node is freed
  Status status_ = ok;
  std::size_t kernels_ = 0, scratches_ = 0, claims_ = 0;
  Kernel kernel_[mostKernels];
  QnnGpu_Kernel_t* kernelPointers_[mostKernels + 1] = {};
  Memory scratch_[mostScratch];
  QnnGpu_MemoryObject_t* scratchPointers_[mostScratch + 1] = {};
  Memory claimed_[mostTensors];
  QnnGpu_OutputClaim_t claim_[mostTensors] = {};
  QnnGpu_OutputClaim_t* claimPointers_[mostTensors + 1] = {};
  TensorFacts facts_[mostTensors];
};

std::uint64_t hashOf(const std::string& text);

/// The result of an op whose kernel is not written yet.
Status kernelNotImplemented(const char* op, const char* file);

}  // namespace udo
