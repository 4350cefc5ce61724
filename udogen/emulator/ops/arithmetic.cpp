// Relu, sums, products, Softmax, MatMul: computed with real numbers of 64 bits, and stored in the type of the output.
#include <algorithm>
#include <cmath>

#include "QnnOpPackage.h"
#include "nodes.hpp"

namespace emulator {
namespace {

/// Fixed point is of no use without a scale and an offset.
Qnn_ErrorHandle_t needQuantization(const Checked& node) {
  for (const auto* const side : {&node.inputs, &node.outputs}) {
    for (const Format& each : *side) {
      if (!each.isKnown()) return node.refuse("needs a scale and an offset for each fixed-point tensor");
    }
  }
  return QNN_SUCCESS;
}

class Relu : public BuiltIn {
 public:
  explicit Relu(const Checked& node) : in_(node.inputs[0]), out_(node.outputs[0]) {}

  void execute(const void* const* inputs, void* const* outputs) const override {
    std::vector<double> values = in_.real(inputs[0]);
    for (double& each : values) each = each > 0.0 ? each : 0.0;
    out_.setReal(values, outputs[0]);
  }

 private:
  const Format in_, out_;
};

template <class Operation>
class Pairwise : public BuiltIn {
 public:
  explicit Pairwise(const Checked& node)
      : a_(node.inputs[0]), b_(node.inputs[1]), out_(node.outputs[0]), ofA_(places(a_.dims(), out_.dims())),
        ofB_(places(b_.dims(), out_.dims())) {}

  void execute(const void* const* inputs, void* const* outputs) const override {
    if (out_.family() == integers) {
      out_.setWhole(each<std::uint64_t, std::int64_t>(a_.whole(inputs[0]), b_.whole(inputs[1])), outputs[0]);
    } else {
      out_.setReal(each<double, double>(a_.real(inputs[0]), b_.real(inputs[1])), outputs[0]);
    }
  }

 private:
  // Integers are computed without sign, where an overflow is defined.
  template <class Compute, class T>
  std::vector<T> each(const std::vector<T>& a, const std::vector<T>& b) const {
    std::vector<T> values(out_.elements());
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<T>(Operation()(static_cast<Compute>(a[ofA_[i]]), static_cast<Compute>(b[ofB_[i]])));
    }
    return values;
  }

  const Format a_, b_, out_;
  const std::vector<std::size_t> ofA_, ofB_;
};

template <class Operation>
Qnn_ErrorHandle_t makePairwise(const Checked& node, std::unique_ptr<BuiltIn>& made) {
  const Qnn_ErrorHandle_t code = needQuantization(node);
  if (code != QNN_SUCCESS) return code;
  const auto& a = node.inputs[0].dims();
  const auto& b = node.inputs[1].dims();
  std::vector<std::uint32_t> both;
  if (!broadcast(a, b, both)) return node.refuse("cannot broadcast %s and %s", textOf(a).c_str(), textOf(b).c_str());
  if (both != node.outputs[0].dims()) {
    return node.refuse("makes %s, its output is %s", textOf(both).c_str(), textOf(node.outputs[0].dims()).c_str());
  }
  made = std::make_unique<Pairwise<Operation>>(node);
  return QNN_SUCCESS;
}

class Softmax : public BuiltIn {
 public:
  Softmax(const Checked& node, std::uint32_t axis, double beta) : in_(node.inputs[0]), out_(node.outputs[0]), beta_(beta) {
    extent_ = in_.dims()[axis];
    for (std::size_t i = axis + 1; i < in_.dims().size(); ++i) inner_ *= in_.dims()[i];
  }

  void execute(const void* const* inputs, void* const* outputs) const override {
    std::vector<double> values = in_.real(inputs[0]);
    for (std::size_t line = 0; line < values.size() / extent_; ++line) {
      double* const first = values.data() + line / inner_ * inner_ * extent_ + line % inner_;
      double largest = -INFINITY, sum = 0.0;
      for (std::size_t i = 0; i < extent_; ++i) largest = std::max(largest, beta_ * first[i * inner_]);
      for (std::size_t i = 0; i < extent_; ++i) sum += first[i * inner_] = std::exp(beta_ * first[i * inner_] - largest);
      for (std::size_t i = 0; i < extent_; ++i) first[i * inner_] /= sum;
    }
    out_.setReal(values, outputs[0]);
  }

 private:
  const Format in_, out_;
  const double beta_;
  std::size_t extent_ = 1, inner_ = 1;
};

class MatMul : public BuiltIn {
 public:
  MatMul(const Checked& node, bool turnA, bool turnB)
      : a_(node.inputs[0]), b_(node.inputs[1]), out_(node.outputs[0]), turnA_(turnA), turnB_(turnB) {
    if (node.inputs.size() == 3) bias_ = node.inputs[2];
    const auto outer = [](const Format& of) { return std::vector<std::uint32_t>(of.dims().begin(), of.dims().end() - 2); };
    ofA_ = places(outer(a_), outer(out_));
    ofB_ = places(outer(b_), outer(out_));
    if (bias_.family() != noFamily) ofBias_ = places(bias_.dims(), out_.dims());
  }

  void execute(const void* const* inputs, void* const* outputs) const override {
    const std::vector<double> a = a_.real(inputs[0]), b = b_.real(inputs[1]);
    const std::size_t rows = out_.dims().end()[-2], columns = out_.dims().end()[-1];
    const std::size_t depth = a_.dims().end()[turnA_ ? -2 : -1];
    std::vector<double> values(out_.elements());
    for (std::size_t batch = 0; batch < ofA_.size(); ++batch) {
      const double* const ofA = a.data() + ofA_[batch] * rows * depth;
      const double* const ofB = b.data() + ofB_[batch] * depth * columns;
      double* const into = values.data() + batch * rows * columns;
      for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t k = 0; k < depth; ++k) {
          const double factor = turnA_ ? ofA[k * rows + row] : ofA[row * depth + k];
          for (std::size_t column = 0; column < columns; ++column) {
            into[row * columns + column] += factor * (turnB_ ? ofB[column * depth + k] : ofB[k * columns + column]);
          }
        }
      }
    }
    if (!ofBias_.empty() && inputs[2] != nullptr) {
      const std::vector<double> bias = bias_.real(inputs[2]);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += bias[ofBias_[i]];
    }
    out_.setReal(values, outputs[0]);
  }

 private:
  const Format a_, b_, out_;
  Format bias_;
  const bool turnA_, turnB_;
  std::vector<std::size_t> ofA_, ofB_, ofBias_;
};

}  // namespace

std::vector<std::uint32_t> productOf(const Checked& node, bool turnA, bool turnB) {
  std::vector<std::uint32_t> a = node.inputs[0].dims(), b = node.inputs[1].dims(), made;
  if (a.size() < 2 || b.size() < 2) {
    node.refuse("takes matrices: tensors of rank 2 or more");
    return {};
  }
  if (turnA) std::swap(a.end()[-1], a.end()[-2]);
  if (turnB) std::swap(b.end()[-1], b.end()[-2]);
  const std::uint32_t rows = a.end()[-2], columns = b.end()[-1];
  const bool meet = a.back() == b.end()[-2];
  a.resize(a.size() - 2);
  b.resize(b.size() - 2);
  if (!meet || !broadcast(a, b, made)) {
    node.refuse("cannot multiply %s and %s", textOf(node.inputs[0].dims()).c_str(), textOf(node.inputs[1].dims()).c_str());
    return {};
  }
  made.push_back(rows);
  made.push_back(columns);
  return made;
}

Qnn_ErrorHandle_t makeRelu(const Checked& node, std::unique_ptr<BuiltIn>& made) {
  const Qnn_ErrorHandle_t code = needQuantization(node);
  if (code != QNN_SUCCESS) return code;
  if (node.inputs[0].dims() != node.outputs[0].dims()) return node.refuse("needs an output with the shape of its input");
  made = std::make_unique<Relu>(node);
  return QNN_SUCCESS;
}

struct Plus {
  template <class T>
  T operator()(T a, T b) const { return a + b; }
};
struct Times {
  template <class T>
  T operator()(T a, T b) const { return a * b; }
};

Qnn_ErrorHandle_t makeAdd(const Checked& node, std::unique_ptr<BuiltIn>& made) { return makePairwise<Plus>(node, made); }

Qnn_ErrorHandle_t makeMultiply(const Checked& node, std::unique_ptr<BuiltIn>& made) {
  return makePairwise<Times>(node, made);
}

Qnn_ErrorHandle_t makeSoftmax(const Checked& node, std::unique_ptr<BuiltIn>& made) {
  const Qnn_ErrorHandle_t code = needQuantization(node);
  if (code != QNN_SUCCESS) return code;
  if (node.inputs[0].dims() != node.outputs[0].dims()) return node.refuse("needs an output with the shape of its input");
  const auto rank = static_cast<std::uint32_t>(node.inputs[0].dims().size());
  const std::uint32_t axis = node.number("axis", rank - 1);
  if (axis >= rank) return node.refuse("has an axis of %u in a tensor of rank %u", axis, rank);
  made = std::make_unique<Softmax>(node, axis, node.real("beta", 1.0));
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t makeMatMul(const Checked& node, std::unique_ptr<BuiltIn>& made) {
  const Qnn_ErrorHandle_t code = needQuantization(node);
  if (code != QNN_SUCCESS) return code;
  if (node.inputs[0].family() != node.inputs[1].family() || node.inputs[0].family() != node.outputs[0].family()) {
    return node.refuse("multiplies floats with floats and fixed point with fixed point");
  }
  const bool turnA = node.number("transpose_in0", 0) != 0, turnB = node.number("transpose_in1", 0) != 0;
  const std::vector<std::uint32_t> shape = productOf(node, turnA, turnB);
  if (shape.empty()) return QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE;
  if (shape != node.outputs[0].dims()) {
    return node.refuse("makes %s, its output is %s", textOf(shape).c_str(), textOf(node.outputs[0].dims()).c_str());
  }
  if (node.inputs.size() == 3 && node.inputs[2].family() != noFamily) {
    std::vector<std::uint32_t> both;
    const auto& bias = node.inputs[2].dims();
    if (!broadcast(bias, shape, both) || both != shape) return node.refuse("cannot add a bias of %s", textOf(bias).c_str());
  }
  made = std::make_unique<MatMul>(node, turnA, turnB);
  return QNN_SUCCESS;
}

}  // namespace emulator
