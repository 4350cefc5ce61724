// A graph as JSON, to show what rewrites have made of it.
#include <cstdio>

#include "graph.hpp"
#include "layout.hpp"

namespace emulator {
namespace {

std::string quoted(const std::string& text) {
  std::string made = "\"";
  for (const char each : text) {
    if (each == '"' || each == '\\') made += '\\';
    if (static_cast<unsigned char>(each) < 0x20) {
      constexpr char digits[] = "0123456789abcdef";
      made += std::string("\\u00") + digits[each >> 4] + digits[each & 15];
    } else {
      made += each;
    }
  }
  return made + "\"";
}

std::string number(float value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
  return text;
}

template <class Items, class Text>
std::string list(const Items& items, const Text& text) {
  std::string made = "[";
  for (const auto& each : items) made += (made.size() == 1 ? "" : ", ") + text(each);
  return made + "]";
}

const char* nameOf(QHPI_Element_Type type) {
  constexpr const char* names[] = {"UNKNOWN", "QUInt8", "QUInt16", "QInt16", "Float32",
                                   "Int32",   "QInt32", "QInt8",   "Float16", "Int64"};
  return type < sizeof names / sizeof *names ? names[type] : "invalid";
}

std::string output(const QHPI_OutputDef& from) {
  std::string shape;
  for (std::uint32_t i = 0; i < from.shape.rank && i < QHPI_MAX_RANK; ++i) {
    shape += (i == 0 ? "" : ", ") + std::to_string(from.shape.dims[i]);
  }
  return "{\"type\": " + quoted(nameOf(from.type)) + ", \"shape\": [" + shape +
         "], \"zero\": " + std::to_string(from.quant_parameters.zero_offset) +
         ", \"step\": " + number(from.quant_parameters.stepsize) + "}";
}

std::string memoryName(const std::unique_ptr<QHPI_Tensor>& tensor) {
  const Layout* const layout = layoutOf(tensor->layout);
  const std::string memory = tensor->placement == QHPI_MemLoc_TCM_Only ? "TCM " : "DDR ";
  return quoted(memory + (layout == nullptr ? "ShapeOnly" : layout->name));
}

std::string reference(const QHPI_OpRef& ref) {
  return "[" + std::to_string(ref.op->id) + ", " + std::to_string(ref.output_number) + "]";
}

}  // namespace

std::string toJson(const Preparation& graph, const char* stage, const std::vector<KernelChoice>& chosen) {
  const auto op = [&](const QHPI_Op* each) {
    std::string made = "{\"id\": " + std::to_string(each->id) + ", \"op\": " + quoted(each->name);
    if (!each->node.empty()) made += ", \"node\": " + quoted(each->node);
    if (each->tensor != nullptr) made += ", \"tensor\": " + quoted(each->tensor->name());
    made += ", \"inputs\": " + list(each->inputs, reference) + ", \"outputs\": " + list(each->outputs, output);
    for (const KernelChoice& one : chosen) {
      if (one.op != each) continue;
      made += ", \"kernel\": " + quoted(one.kernel->function_name) + ", \"input_memory\": " + list(one.inputs, memoryName) +
              ", \"output_memory\": " + list(one.outputs, memoryName);
    }
    return made + "}";
  };
  const auto result = [](const Preparation::Result& each) {
    return "{\"tensor\": " + quoted(each.tensor->name()) + ", \"from\": " + reference(each.from) + "}";
  };
  return "{\"stage\": " + quoted(stage) + ", \"ops\": " + list(graph.order(), op) +
         ", \"results\": " + list(graph.results, result) + "}";
}

}  // namespace emulator
