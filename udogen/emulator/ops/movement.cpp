// Reshape, Transpose, Concat: elements that change their place.
#include <cstring>
#include <numeric>

#include "nodes.hpp"
#include "tensor.hpp"

namespace emulator {
namespace {

class Reshape : public BuiltIn {
 public:
  explicit Reshape(const Checked& node) : bytes_(node.outputs[0].bytes()) {}
  void execute(const void* const* inputs, void* const* outputs) const override {
    std::memcpy(outputs[0], inputs[0], bytes_);
  }

 private:
  const std::size_t bytes_;
};

class Transpose : public BuiltIn {
 public:
  Transpose(const Checked& node, const std::vector<std::uint32_t>& perm)
      : width_(node.outputs[0].width()), from_(node.outputs[0].elements()) {
    const std::vector<std::uint32_t>& in = node.inputs[0].dims();
    const std::vector<std::uint32_t>& out = node.outputs[0].dims();
    std::vector<std::size_t> strides(in.size(), 1), index(in.size(), 0);
    for (std::size_t i = in.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * in[i + 1];
    for (std::size_t& each : from_) {
      each = 0;
      for (std::size_t axis = 0; axis < out.size(); ++axis) each += index[axis] * strides[perm[axis]];
      for (std::size_t axis = out.size(); axis-- > 0 && ++index[axis] == out[axis];) index[axis] = 0;
    }
  }

  void execute(const void* const* inputs, void* const* outputs) const override {
    const auto* const in = static_cast<const unsigned char*>(inputs[0]);
    auto* const out = static_cast<unsigned char*>(outputs[0]);
    for (std::size_t i = 0; i < from_.size(); ++i) std::memcpy(out + i * width_, in + from_[i] * width_, width_);
  }

 private:
  const std::size_t width_;
  std::vector<std::size_t> from_;
};

class Concat : public BuiltIn {
 public:
  Concat(const Checked& node, std::uint32_t axis) : inputs_(node.inputs), out_(node.outputs[0]) {
    for (std::uint32_t i = 0; i < axis; ++i) outer_ *= out_.dims()[i];
  }

  void execute(const void* const* inputs, void* const* outputs) const override {
    std::size_t at = 0;
    const std::size_t row = out_.bytes() / outer_;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Format& in = inputs_[i];
      const auto* from = static_cast<const unsigned char*>(inputs[i]);
      std::vector<unsigned char> requantized;
      if (!in.storesLike(out_)) {
        requantized = inOutputsEncoding(in, from);
        from = requantized.data();
      }
      const std::size_t part = in.bytes() / outer_;
      for (std::size_t k = 0; k < outer_; ++k) {
        std::memcpy(static_cast<unsigned char*>(outputs[0]) + k * row + at, from + k * part, part);
      }
      at += part;
    }
  }

 private:
  std::vector<unsigned char> inOutputsEncoding(const Format& in, const void* from) const {
    std::vector<double> values = in.real(from);
    const std::size_t count = values.size();
    values.resize(out_.elements());  // which setReal stores; the rest is cut off again
    std::vector<unsigned char> stored(out_.bytes());
    out_.setReal(values, stored.data());
    stored.resize(count * out_.width());
    return stored;
  }

  const std::vector<Format> inputs_;
  const Format out_;
  std::size_t outer_ = 1;
};

}  // namespace

std::string textOf(const std::vector<std::uint32_t>& dims) {
  std::string text;
  for (const std::uint32_t each : dims) text += (text.empty() ? "" : "x") + std::to_string(each);
  return text;
}

bool broadcast(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b,
               std::vector<std::uint32_t>& both) {
  both.assign(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 1; i <= both.size(); ++i) {
    const std::uint32_t ofA = i <= a.size() ? a[a.size() - i] : 1, ofB = i <= b.size() ? b[b.size() - i] : 1;
    if (ofA != ofB && ofA != 1 && ofB != 1) return false;
    both[both.size() - i] = ofA == 1 ? ofB : ofA;
  }
  return true;
}

std::vector<std::size_t> places(const std::vector<std::uint32_t>& from, const std::vector<std::uint32_t>& to) {
  std::vector<std::size_t> found(std::accumulate(to.begin(), to.end(), std::size_t{1}, std::multiplies<>()));
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::size_t left = i, stride = 1, place = 0;
    for (std::size_t axis = 1; axis <= to.size(); ++axis) {
      const std::size_t index = left % to[to.size() - axis];
      left /= to[to.size() - axis];
      if (axis > from.size()) continue;
      const std::uint32_t extent = from[from.size() - axis];
      place += (extent == 1 ? 0 : index) * stride;
      stride *= extent;
    }
    found[i] = place;
  }
  return found;
}

Qnn_ErrorHandle_t makeReshape(const Checked& node, std::unique_ptr<BuiltIn>& made) {
  if (node.inputs[0].elements() != node.outputs[0].elements()) {
    return node.refuse("cannot make %s of %s", textOf(node.outputs[0].dims()).c_str(),
                       textOf(node.inputs[0].dims()).c_str());
  }
  made = std::make_unique<Reshape>(node);
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t makeTranspose(const Checked& node, std::unique_ptr<BuiltIn>& made) {
  const std::vector<std::uint32_t>& in = node.inputs[0].dims();
  const Qnn_Tensor_t& given = node.find("perm")->tensorParam;
  const Format format(given);
  if (format.type() != QNN_DATATYPE_UINT_32 || format.elements() != in.size()) {
    return node.refuse("takes a `perm` of %zu numbers of the type UINT_32", in.size());
  }
  std::vector<std::uint32_t> shape, perm;
  std::vector<bool> taken(in.size());
  for (const std::int64_t each : format.whole(common(given).clientBuf.data)) {
    const auto axis = static_cast<std::size_t>(each);
    if (axis >= in.size() || taken[axis]) return node.refuse("has a `perm` that is not a permutation");
    taken[axis] = true;
    perm.push_back(static_cast<std::uint32_t>(axis));
    shape.push_back(in[axis]);
  }
  if (shape != node.outputs[0].dims()) {
    return node.refuse("makes %s, its output is %s", textOf(shape).c_str(), textOf(node.outputs[0].dims()).c_str());
  }
  made = std::make_unique<Transpose>(node, perm);
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t makeConcat(const Checked& node, std::unique_ptr<BuiltIn>& made) {
  const std::vector<std::uint32_t>& out = node.outputs[0].dims();
  const std::uint32_t axis = node.number("axis", 0);
  if (axis >= out.size()) return node.refuse("has an axis of %u in a tensor of rank %zu", axis, out.size());
  std::uint64_t extent = 0;
  for (const Format& each : node.inputs) {
    std::vector<std::uint32_t> dims = each.dims();
    if (each.family() == noFamily) return node.refuse("cannot leave out an input");
    const bool converts = each.family() == fixedPoint && !each.storesLike(node.outputs[0]);
    if (converts && !(each.hasOnePair() && node.outputs[0].hasOnePair())) {
      return node.refuse("needs one scale and one offset for each fixed-point tensor");
    }
    if (axis < dims.size()) {
      extent += dims[axis];
      dims[axis] = out[axis];
    }
    if (dims != out) return node.refuse("cannot put %s into %s", textOf(each.dims()).c_str(), textOf(out).c_str());
  }
  if (extent != out[axis]) return node.refuse("makes %llu along axis %u, its output has %u",
                                              static_cast<unsigned long long>(extent), axis, out[axis]);
  made = std::make_unique<Concat>(node, axis);
  return QNN_SUCCESS;
}

}  // namespace emulator
