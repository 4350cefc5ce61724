// A tensor of a graph: a deep copy of what the client described.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "QnnTensor.h"
#include "QnnTypes.h"
#include "log.hpp"

namespace emulator {

/// Bits of an element; 0 for a type that no tensor has.
std::size_t bitsOf(Qnn_DataType_t type);

/// v1 and v2 agree in everything up to the client's buffer.
inline const Qnn_TensorV1_t& common(const Qnn_Tensor_t& tensor) { return tensor.v1; }

class Tensor {
 public:
  /// A checked copy, or an error with the reason in the log.
  static Qnn_ErrorHandle_t copy(const Qnn_Tensor_t& from, const Logger& logger, std::unique_ptr<Tensor>& made);

  Tensor() = default;
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  std::uint32_t id() const { return raw_.v1.id; }
  void setId(std::uint32_t id) { raw_.v1.id = id; }
  const std::string& name() const { return name_; }
  Qnn_TensorType_t type() const { return raw_.v1.type; }
  Qnn_DataType_t dataType() const { return raw_.v1.dataType; }
  std::size_t elements() const;
  std::size_t bytes() const;

  /// Whether some of its dimensions are dynamic: each execution sizes them, up to those it was made with.
  bool isDynamic() const { return raw_.version == QNN_TENSOR_VERSION_2; }
  const std::vector<std::uint32_t>& dims() const { return dims_; }
  const std::vector<std::uint32_t>& largest() const { return largest_; }
  std::size_t largestBytes() const;
  /// False where they do not fit; nodes, which point to them, see the new ones.
  bool resize(const std::vector<std::uint32_t>& dims);

  bool isInput() const { return type() == QNN_TENSOR_TYPE_APP_WRITE || type() == QNN_TENSOR_TYPE_APP_READWRITE; }
  bool isOutput() const { return type() == QNN_TENSOR_TYPE_APP_READ || type() == QNN_TENSOR_TYPE_APP_READWRITE; }
  bool isStatic() const { return type() == QNN_TENSOR_TYPE_STATIC; }
  bool isNative() const { return type() == QNN_TENSOR_TYPE_NATIVE; }

  /// What packages are shown; its pointers lead into this object.
  const Qnn_Tensor_t& raw() const { return raw_; }
  const std::vector<unsigned char>& data() const { return data_; }

 private:
  Qnn_ErrorHandle_t copyQuantization(const Qnn_QuantizeParams_t& from, const Logger& logger);

  Qnn_Tensor_t raw_ = {};
  std::string name_;
  std::vector<std::uint32_t> dims_, largest_;
  std::vector<std::uint8_t> flags_;  // whether each dimension is dynamic
  std::vector<unsigned char> data_;  // of a static one
  std::vector<Qnn_ScaleOffset_t> scaleOffsets_;
  std::vector<float> scales_;
  std::vector<std::int32_t> offsets_;
};

}  // namespace emulator
