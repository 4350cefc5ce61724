// A context as bytes: magic, version, backend, length and checksum, then its graphs as they were composed.  What the
// engine compiled is compiled again when it is restored.
#include <algorithm>
#include <cstring>

#include "model.hpp"

namespace emulator {
namespace {

constexpr char magic[8] = {'U', 'D', 'O', 'G', 'E', 'N', 'C', 'B'};
constexpr std::uint32_t version = 2;

struct Head {
  char magic[8];
  std::uint32_t version;
  std::uint32_t backend;
  std::uint64_t length;
  std::uint64_t checksum;
};

// In the place of a size: constants that are stored already, so many bytes behind the head.
constexpr std::uint64_t isStored = std::uint64_t{1} << 63;

std::uint64_t checksumOf(const unsigned char* bytes, std::size_t count) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (std::size_t i = 0; i < count; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

class Writer {
 public:
  void bytes(const void* from, std::size_t count) {
    const auto* const first = static_cast<const unsigned char*>(from);
    out.insert(out.end(), first, first + count);
  }
  void number(std::uint64_t value) { bytes(&value, sizeof value); }
  void text(const char* from) {
    const std::size_t length = from == nullptr ? 0 : std::strlen(from);
    number(length);
    bytes(from, length);
  }
  void tensor(const Tensor& from) { tensor(from.raw(), from.largest().data()); }
  void tensor(const Qnn_Tensor_t& from, const std::uint32_t* dims) {
    const Qnn_TensorV1_t& t = common(from);
    const bool isDynamic = from.version == QNN_TENSOR_VERSION_2;
    for (const std::uint64_t each : {std::uint64_t{t.id}, static_cast<std::uint64_t>(t.type),
                                     static_cast<std::uint64_t>(t.dataType), std::uint64_t{t.rank}}) {
      number(each);
    }
    text(t.name);
    for (std::uint32_t i = 0; i < t.rank; ++i) number(dims[i]);
    for (std::uint32_t i = 0; i < t.rank; ++i) number(isDynamic && from.v2.isDynamicDimensions[i] != 0);
    bytes(&t.quantizeParams, sizeof t.quantizeParams);
    if (t.quantizeParams.quantizationEncoding == QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET) {
      const Qnn_AxisScaleOffset_t& axis = t.quantizeParams.axisScaleOffsetEncoding;
      bytes(axis.scaleOffset, axis.numScaleOffsets * sizeof *axis.scaleOffset);
    } else if (t.quantizeParams.quantizationEncoding == QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET) {
      const Qnn_BwAxisScaleOffset_t& axis = t.quantizeParams.bwAxisScaleOffsetEncoding;
      bytes(axis.scales, axis.numElements * sizeof *axis.scales);
      number(axis.offsets != nullptr);
      if (axis.offsets != nullptr) bytes(axis.offsets, axis.numElements * sizeof *axis.offsets);
    }
    const std::uint64_t size = t.type == QNN_TENSOR_TYPE_STATIC ? t.clientBuf.dataSize : 0;
    constant(t.clientBuf.data, size);
  }
  void constant(const void* data, std::uint64_t size) {
    if (size == 0) return number(0);
    for (const std::size_t at : constants_) {
      if (std::memcmp(&out[at], &size, sizeof size) == 0 && std::memcmp(&out[at + sizeof size], data, size) == 0) {
        number(isStored | at);
        return;
      }
    }
    if (shares) constants_.push_back(out.size());
    number(size);
    bytes(data, size);
  }
  std::vector<unsigned char> out;
  bool shares = false;

 private:
  std::vector<std::size_t> constants_;  // where the sizes of those are that may be referred to
};

/// Reads what a Writer wrote; past the end it gives zeros, and `good` is false.
class Reader {
 public:
  Reader(const unsigned char* from, std::size_t count) : begin_(from), at_(from), left_(count) {}

  const unsigned char* bytes(std::size_t count) {
    if (count > left_) {
      good = false;
      left_ = 0;
      return nullptr;
    }
    const unsigned char* const from = at_;
    at_ += count;
    left_ -= count;
    return from;
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    if (const unsigned char* const from = bytes(sizeof value)) std::memcpy(&value, from, sizeof value);
    return value;
  }
  /// Constants, here or stored before; also their size.
  const unsigned char* constant(std::uint64_t& size) {
    size = number();
    if ((size & isStored) == 0) return bytes(size);
    const std::uint64_t place = size & ~isStored, read = static_cast<std::uint64_t>(at_ - begin_);
    Reader there(begin_, read);
    there.bytes(place);
    size = there.number();
    const unsigned char* const from = (size & isStored) == 0 ? there.bytes(size) : nullptr;
    good = good && there.good && from != nullptr;
    return from;
  }
  std::string text() {
    const std::size_t length = number();
    const auto* const from = reinterpret_cast<const char*>(bytes(length));
    return from == nullptr ? std::string() : std::string(from, length);
  }
  bool good = true;

 private:
  const unsigned char* begin_;
  const unsigned char* at_;
  std::size_t left_;
};

/// A tensor on its way from bytes into a graph, which copies it.
struct Read {
  Qnn_Tensor_t tensor = {};
  std::string name;
  std::vector<std::uint32_t> dims;
  std::vector<std::uint8_t> flags;
  std::vector<Qnn_ScaleOffset_t> scaleOffsets;
  std::vector<float> scales;
  std::vector<std::int32_t> offsets;

  explicit Read(Reader& in) {
    Qnn_TensorV1_t& t = tensor.v1;
    tensor.version = QNN_TENSOR_VERSION_2;
    t.id = static_cast<std::uint32_t>(in.number());
    t.type = static_cast<Qnn_TensorType_t>(in.number());
    t.dataType = static_cast<Qnn_DataType_t>(in.number());
    const std::uint64_t rank = in.number();
    name = in.text();
    for (std::uint64_t i = 0; i < rank && in.good; ++i) dims.push_back(static_cast<std::uint32_t>(in.number()));
    for (std::uint64_t i = 0; i < rank && in.good; ++i) flags.push_back(in.number() != 0);
    t.rank = static_cast<std::uint32_t>(dims.size());
    t.name = name.c_str();
    t.dimensions = dims.data();
    tensor.v2.isDynamicDimensions = flags.data();
    quantization(in);
    std::uint64_t size = 0;
    const unsigned char* const data = in.constant(size);
    t.clientBuf = {const_cast<unsigned char*>(data), static_cast<std::uint32_t>(size)};
  }
  Read(const Read&) = delete;
  Read& operator=(const Read&) = delete;

 private:
  template <class T>
  static void fill(Reader& in, std::size_t count, std::vector<T>& to) {
    if (const unsigned char* const from = in.bytes(count * sizeof(T))) {
      to.resize(count);
      std::memcpy(to.data(), from, count * sizeof(T));
    }
  }

  void quantization(Reader& in) {
    Qnn_QuantizeParams_t& params = tensor.v1.quantizeParams;
    if (const unsigned char* const from = in.bytes(sizeof params)) std::memcpy(&params, from, sizeof params);
    if (params.quantizationEncoding == QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET) {
      fill(in, params.axisScaleOffsetEncoding.numScaleOffsets, scaleOffsets);
      params.axisScaleOffsetEncoding.scaleOffset = scaleOffsets.data();
    } else if (params.quantizationEncoding == QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET) {
      Qnn_BwAxisScaleOffset_t& axis = params.bwAxisScaleOffsetEncoding;
      fill(in, axis.numElements, scales);
      axis.scales = scales.data();
      if (in.number() != 0) fill(in, axis.numElements, offsets);
      axis.offsets = offsets.empty() ? nullptr : offsets.data();
    }
  }
};

void write(Writer& out, const Node& node) {
  const Qnn_OpConfigV1_t& config = node.v1();
  for (const char* const each : {config.name, config.packageName, config.typeName}) out.text(each);
  out.number(config.numOfInputs);
  for (std::uint32_t i = 0; i < config.numOfInputs; ++i) out.number(common(config.inputTensors[i]).id);
  out.number(config.numOfOutputs);
  for (std::uint32_t i = 0; i < config.numOfOutputs; ++i) out.number(common(config.outputTensors[i]).id);
  out.number(config.numOfParams);
  for (std::uint32_t i = 0; i < config.numOfParams; ++i) {
    const Qnn_Param_t& param = config.params[i];
    out.text(param.name);
    out.number(param.paramType);
    if (param.paramType == QNN_PARAMTYPE_TENSOR) {
      out.tensor(param.tensorParam, common(param.tensorParam).dimensions);
    } else {
      out.number(param.scalarParam.dataType);
      const bool isText = static_cast<std::uint32_t>(param.scalarParam.dataType) == QNN_DATATYPE_STRING;
      out.number(isText ? 0 : param.scalarParam.uint64Value);
      out.text(isText ? param.scalarParam.stringValue : "");
    }
  }
}

Qnn_ErrorHandle_t readNode(Reader& in, Graph& graph) {
  std::string texts[3];
  for (std::string& each : texts) each = in.text();
  std::vector<Qnn_Tensor_t> sides[2];
  for (auto& side : sides) {
    const std::uint64_t count = in.number();
    for (std::uint64_t i = 0; i < count && in.good; ++i) {
      Qnn_Tensor_t tensor = {};
      tensor.version = QNN_TENSOR_VERSION_1;
      tensor.v1.id = static_cast<std::uint32_t>(in.number());
      side.push_back(tensor);
    }
  }
  std::vector<std::unique_ptr<Read>> tensors;
  std::vector<std::unique_ptr<std::string>> kept;
  std::vector<Qnn_Param_t> params;
  const std::uint64_t count = in.number();
  for (std::uint64_t i = 0; i < count && in.good; ++i) {
    Qnn_Param_t param = {};
    kept.push_back(std::make_unique<std::string>(in.text()));
    param.name = kept.back()->c_str();
    param.paramType = static_cast<Qnn_ParamType_t>(in.number());
    if (param.paramType == QNN_PARAMTYPE_TENSOR) {
      tensors.push_back(std::make_unique<Read>(in));
      param.tensorParam = tensors.back()->tensor;
    } else {
      param.scalarParam.dataType = static_cast<Qnn_DataType_t>(in.number());
      param.scalarParam.uint64Value = in.number();
      kept.push_back(std::make_unique<std::string>(in.text()));
      if (static_cast<std::uint32_t>(param.scalarParam.dataType) == QNN_DATATYPE_STRING) {
        param.scalarParam.stringValue = kept.back()->c_str();
      }
    }
    params.push_back(param);
  }
  if (!in.good) return QNN_CONTEXT_ERROR_CREATE_FROM_BINARY;
  Qnn_OpConfig_t config = {};
  config.version = QNN_OPCONFIG_VERSION_1;
  config.v1 = {texts[0].c_str(),  texts[1].c_str(), texts[2].c_str(),
               static_cast<std::uint32_t>(params.size()), params.data(),
               static_cast<std::uint32_t>(sides[0].size()), sides[0].data(),
               static_cast<std::uint32_t>(sides[1].size()), sides[1].data()};
  return graph.addNode(config);
}

Qnn_ErrorHandle_t readGraph(Reader& in, const std::shared_ptr<Context>& context) {
  auto graph = std::make_shared<Graph>(context, in.text());
  graph->option = static_cast<std::uint32_t>(in.number());
  const std::uint64_t tensors = in.number();
  for (std::uint64_t i = 0; i < tensors && in.good; ++i) {
    const Read read(in);
    std::uint32_t id = 0;
    const Qnn_ErrorHandle_t code = graph->addTensor(read.tensor, id);
    if (code != QNN_SUCCESS || id != read.tensor.v1.id) return QNN_CONTEXT_ERROR_CREATE_FROM_BINARY;
  }
  in.number();
  const std::uint64_t nodes = in.number();
  for (std::uint64_t i = 0; i < nodes && in.good; ++i) {
    if (readNode(in, *graph) != QNN_SUCCESS) return QNN_CONTEXT_ERROR_CREATE_FROM_BINARY;
  }
  const std::vector<std::string>& enabled = context->enabled;
  graph->isEnabled = enabled.empty() || std::find(enabled.begin(), enabled.end(), graph->name) != enabled.end();
  if (!in.good) return QNN_CONTEXT_ERROR_CREATE_FROM_BINARY;
  if (graph->isEnabled && graph->finalize(nullptr) != QNN_SUCCESS) return QNN_CONTEXT_ERROR_CREATE_FROM_BINARY;
  void* const handle = objects().add(graph);
  const std::string name = graph->name;
  context->graphs[name] = {std::move(graph), handle};
  return QNN_SUCCESS;
}

}  // namespace

std::vector<unsigned char> stored(const Context& context) {
  Writer out;
  out.shares = context.sharesWeights;
  out.number(context.graphs.size());
  for (const auto& [name, entry] : context.graphs) {
    const Graph& graph = *entry.first;
    out.text(name.c_str());
    out.number(graph.option);
    out.number(graph.tensors.size());
    for (const auto& [_, tensor] : graph.tensors) out.tensor(*tensor);
    Writer nodes;
    nodes.number(graph.nodes.size());
    for (const auto& node : graph.nodes) write(nodes, *node);
    out.number(nodes.out.size());  // so that code that only describes the context can skip them
    out.bytes(nodes.out.data(), nodes.out.size());
  }
  Head head{{}, version, identity.backendId, out.out.size(), checksumOf(out.out.data(), out.out.size())};
  std::memcpy(head.magic, magic, sizeof magic);
  std::vector<unsigned char> whole(sizeof head + out.out.size());
  std::memcpy(whole.data(), &head, sizeof head);
  std::memcpy(whole.data() + sizeof head, out.out.data(), out.out.size());
  return whole;
}

Qnn_ErrorHandle_t checkBinary(const void* binary, std::size_t size, const Logger& logger) {
  Head head{};
  if (size >= sizeof head) std::memcpy(&head, binary, sizeof head);
  if (std::memcmp(head.magic, magic, sizeof magic) != 0) {
    logger.error("this is not a context binary of udogen's emulator");
    return QNN_CONTEXT_ERROR_CREATE_FROM_BINARY;
  }
  if (head.version != version) {
    logger.error("the context binary is of version %u; this emulator reads %u", head.version, version);
    return QNN_CONTEXT_ERROR_BINARY_VERSION;
  }
  if (head.backend != identity.backendId) {
    logger.error("the context binary is of backend %u, this is backend %u", head.backend, identity.backendId);
    return QNN_CONTEXT_ERROR_BINARY_CONFIGURATION;
  }
  const auto* const bytes = static_cast<const unsigned char*>(binary);
  if (head.length != size - sizeof head || head.checksum != checksumOf(bytes + sizeof head, head.length)) {
    logger.error("the context binary is damaged: its checksum differs");
    return QNN_CONTEXT_ERROR_CREATE_FROM_BINARY;
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t restore(const void* binary, std::size_t size, const std::shared_ptr<Context>& context) {
  const Qnn_ErrorHandle_t code = checkBinary(binary, size, context->backend->logger);
  if (code != QNN_SUCCESS) return code;
  Reader in(static_cast<const unsigned char*>(binary) + sizeof(Head), size - sizeof(Head));
  const std::uint64_t graphs = in.number();
  for (std::uint64_t i = 0; i < graphs && in.good; ++i) {
    const Qnn_ErrorHandle_t read = readGraph(in, context);
    if (read != QNN_SUCCESS) return read;
  }
  return in.good ? QNN_SUCCESS : QNN_CONTEXT_ERROR_CREATE_FROM_BINARY;
}

Qnn_ErrorHandle_t describe(const void* binary, std::size_t size, std::vector<Described>& graphs) {
  const Logger silent(std::make_shared<Log>(nullptr, static_cast<QnnLog_Level_t>(0)));
  const Qnn_ErrorHandle_t code = checkBinary(binary, size, silent);
  if (code != QNN_SUCCESS) return code;
  Reader in(static_cast<const unsigned char*>(binary) + sizeof(Head), size - sizeof(Head));
  const std::uint64_t count = in.number();
  for (std::uint64_t i = 0; i < count && in.good; ++i) {
    Described graph;
    graph.name = in.text();
    in.number();
    const std::uint64_t tensors = in.number();
    for (std::uint64_t k = 0; k < tensors && in.good; ++k) {
      const Read read(in);
      std::unique_ptr<Tensor> made;
      if (Tensor::copy(read.tensor, silent, made) != QNN_SUCCESS) return QNN_CONTEXT_ERROR_CREATE_FROM_BINARY;
      if (made->isInput()) graph.inputs.push_back(made->raw());
      if (made->isOutput()) graph.outputs.push_back(made->raw());
      graph.tensors.push_back(std::move(made));
    }
    in.bytes(in.number());
    graphs.push_back(std::move(graph));
  }
  return in.good ? QNN_SUCCESS : QNN_CONTEXT_ERROR_CREATE_FROM_BINARY;
}

}  // namespace emulator
