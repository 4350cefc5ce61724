// Acts as a client of a CPU package that calls validateOpConfig never, often, or in several threads.  Used by
// test_unvalidated.py, which links it with the package of Unvalidated.xml: y = x * factor + bias[0], with `bias` and
// `factor` optional.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "CPU/QnnCpuOpPackage.h"

extern "C" Qnn_ErrorHandle_t UnvalidatedInterfaceProvider(QnnOpPackage_Interface_t* table);

namespace {

QnnOpPackage_Interface_t package;
std::uint32_t dims[2] = {2, 3};

void check(bool holds, const char* what) {
  if (holds) return;
  std::printf("wrong: %s\n", what);
  std::exit(1);
}

QnnCpuOpPackage_Tensor_t tensor(QnnCpuOpPackage_DataType_t type, void* data) {
  QnnCpuOpPackage_Tensor_t made = {};
  std::memset(&made.quantizeParams, 0x5A, sizeof made.quantizeParams);  // uninitialized, as in the runtime
  made.dataType = type;
  made.rank = 2;
  made.maxDimensions = made.currentDimensions = dims;
  made.data = data;
  return made;
}

/// A node with its tensors, as libQnnCpu makes it: counts that are zero are unset, and so are their arrays.
struct Node {
  float in[6] = {0, 1, 2, 3, 4, 5};
  std::uint8_t stored[6] = {3, 4, 5, 6, 7, 8};
  float bias[6] = {100};
  float out[6] = {};
  QnnCpuOpPackage_Tensor_t x = tensor(QNN_CPU_DATATYPE_FLOAT_32, in), b = tensor(QNN_CPU_DATATYPE_FLOAT_32, bias),
                           y = tensor(QNN_CPU_DATATYPE_FLOAT_32, out);
  QnnCpuOpPackage_Param_t factor = {QNN_CPU_PARAMTYPE_SCALAR, "factor", {3.0}};
  QnnCpuOpPackage_Param_t* params[1] = {&factor};
  QnnCpuOpPackage_Tensor_t* inputs[2] = {&x, &b};
  QnnCpuOpPackage_Tensor_t* outputs[1] = {&y};
  QnnCpuOpPackage_Node_t node = {"", "Unvalidated", "Affine", 1, params, 2, inputs, 1, outputs};

  void leaveOutBias() {
    b.rank = 0;
    b.maxDimensions = b.currentDimensions = nullptr;
    b.data = nullptr;
  }
  void leaveOutFactor() {
    node.numOfParams = 2816081024u;
    node.params = reinterpret_cast<QnnCpuOpPackage_Param_t**>(0x5A5A5A5A5A5A5A5Aull);
  }
  void quantize() {
    x.dataType = QNN_CPU_DATATYPE_UINT_8;
    x.data = stored;
    x.quantizeParams = {};
    x.quantizeParams.encodingDefinition = QNN_DEFINITION_DEFINED;
    x.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_SCALE_OFFSET;
    x.quantizeParams.scaleOffsetEncoding = {0.5f, -3};
  }
  Qnn_ErrorHandle_t create(QnnOpPackage_OpImpl_t& impl) {
    return package.v1_4.createOpImpl(nullptr, reinterpret_cast<QnnOpPackage_Node_t>(&node), &impl);
  }
  /// y[5], or -1 if the op is refused.
  float run() {
    QnnOpPackage_OpImpl_t impl = nullptr;
    if (create(impl) != QNN_SUCCESS) return -1;
    auto* op = reinterpret_cast<QnnCpuOpPackage_OpImpl_t*>(impl);
    check(op->opImplFn(op->userData) == QNN_SUCCESS, "execute");
    check(package.v1_4.freeOpImpl(impl) == QNN_SUCCESS, "free");
    return out[5];
  }
};

/// The arguments of a client's validation of a node.
struct Config {
  Qnn_Tensor_t inputs[2] = {}, output = {};
  Qnn_Param_t param = {};
  Qnn_OpConfig_t config = {};
  Config(const char* name, bool bias, bool factor) {
    for (Qnn_Tensor_t* each : {&inputs[0], &inputs[1], &output}) {
      each->version = QNN_TENSOR_VERSION_1;
      each->v1.dataType = QNN_DATATYPE_FLOAT_32;
      each->v1.rank = 2;
      each->v1.dimensions = dims;
      each->v1.quantizeParams.encodingDefinition = QNN_DEFINITION_UNDEFINED;
    }
    if (!bias) {
      inputs[1].v1.type = QNN_TENSOR_TYPE_NULL;
      inputs[1].v1.rank = 0;
      inputs[1].v1.dimensions = nullptr;
    }
    param.paramType = QNN_PARAMTYPE_SCALAR;
    param.name = "factor";
    param.scalarParam.dataType = QNN_DATATYPE_FLOAT_32;
    config.version = QNN_OPCONFIG_VERSION_1;
    config.v1 = {name, "Unvalidated", "Affine", factor ? 1u : 0u, &param, 2, inputs, 1, &output};
  }
  bool validate() { return package.v1_4.validateOpConfig(config) == QNN_SUCCESS; }
};

void never() {
  check(Node().run() == 115, "all given");
  Node less;
  less.leaveOutBias();
  less.leaveOutFactor();
  check(less.run() == 10, "a default, and an input left out");
  Node fixed;
  fixed.quantize();
  fixed.leaveOutBias();
  check(fixed.run() == 7.5, "fixed point");
  Node plain;
  plain.quantize();
  std::memset(&plain.x.quantizeParams, 0x5A, sizeof plain.x.quantizeParams);
  plain.leaveOutBias();
  check(plain.run() == 24, "UINT_8 without an encoding");

  Node type;
  type.x.dataType = QNN_CPU_DATATYPE_INT_32;
  check(type.run() == -1, "a wrong type is refused");
  Node rank;
  rank.x.rank = 1;
  check(rank.run() == -1, "a wrong rank is refused");
  Node name;
  name.factor.name = "fctor";
  check(name.run() == -1, "an unknown parameter is refused");
  Node text;
  text.factor.type = QNN_CPU_PARAMTYPE_STRING;
  text.factor.string = "3";
  check(text.run() == -1, "a text for a number is refused");
  Node none;
  none.node.numOfInputs = 0;
  check(none.run() == -1, "no inputs are refused");
  Node null;
  null.inputs[0] = nullptr;
  check(null.run() == -1, "no mandatory input is refused");
  null.inputs[0] = &null.x;
  null.params[0] = nullptr;
  check(null.run() == -1, "no parameter where one is counted is refused");
}

void many() {
  constexpr int count = 3000;  // all with one name, and all validated before the first is created
  for (int i = 0; i < count; ++i) check(Config("", i % 2 == 0, true).validate(), "validate");
  std::vector<Node> nodes(count);
  std::vector<QnnOpPackage_OpImpl_t> made(count);
  for (int i = 0; i < count; ++i) {
    if (i % 2 != 0) nodes[static_cast<std::size_t>(i)].leaveOutBias();
    check(nodes[static_cast<std::size_t>(i)].create(made[static_cast<std::size_t>(i)]) == QNN_SUCCESS, "create");
  }
  for (std::size_t i = 0; i < made.size(); ++i) {
    auto* op = reinterpret_cast<QnnCpuOpPackage_OpImpl_t*>(made[i]);
    check(op->opImplFn(op->userData) == QNN_SUCCESS && nodes[i].out[5] == (i % 2 == 0 ? 115 : 15), "execute");
    package.v1_4.freeOpImpl(made[i]);
  }
}

/// Validations without a following node: their memory is bounded, and released by the last terminate.
void asked() {
  auto megabytes = [] {
    rusage used = {};
    getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss / 1024;
  };
  char name[16];
  auto ask = [&](int count) {
    for (int i = 0; i < count; ++i) {
      std::snprintf(name, sizeof name, "%d", i % 50000);
      Config(name, true, true).validate();
    }
  };
  ask(70000);
  const long before = megabytes();
  ask(140000);
  std::printf("%ld MB after 210,000 validations, %ld before the last 140,000\n", megabytes(), before);
  check(megabytes() < before + 64, "memory grows");
  check(Node().run() == 115, "a node after that");
}

void threads() {
  std::vector<std::thread> all;
  for (int thread = 0; thread < 4; ++thread) {
    all.emplace_back([thread] {
      char name[16];
      std::snprintf(name, sizeof name, "%d", thread % 2);  // two threads share one
      for (int i = 0; i < 300; ++i) {
        check(Config(name, true, true).validate(), "validate");
        Node node;
        node.node.name = name;
        check(node.run() == 115, "in a thread");
      }
    });
  }
  for (std::thread& each : all) each.join();
}

}  // namespace

int main(int, char** argv) {
  check(UnvalidatedInterfaceProvider(&package) == QNN_SUCCESS, "provider");
  check(package.v1_4.init(nullptr) == QNN_SUCCESS, "init");
  const std::string_view mode = argv[1];
  if (mode == "never") never();
  if (mode == "many") many();
  if (mode == "asked") asked();
  if (mode == "threads") threads();
  check(package.v1_4.terminate() == QNN_SUCCESS, "terminate");
  std::puts("fine");
}
