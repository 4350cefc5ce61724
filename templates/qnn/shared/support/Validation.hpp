// Compares the config of a node with the description of its op.

namespace udo {

// How the backends differ.
struct ValidationRules {
  // Whether a tensor may have one type if the config names another; null: only the named ones.
  bool (*alike)(Qnn_DataType_t given, Qnn_DataType_t named) = nullptr;
  // The same for a parameter; integers must fit into the named type.  ONNX Runtime passes them all as INT_32.
  bool (*converts)(Qnn_DataType_t given, Qnn_DataType_t named, bool scalar) = nullptr;
  bool everyInput = false;  // optional inputs cannot be left out
};

// `ok`, or the error of validation; the log has the reason.
Status validateConfig(const OpSpec& spec, const Qnn_OpConfigV1_t& config, const ValidationRules& rules = {});

// The same on HTP; null: the package has no such op.  Not on the DSP itself, as the host has validated the node.
Status validateNode(const QnnOpPackage_Info_t& package, const OpSpec* spec, const Qnn_OpConfig_t& config);

// The error if a package has no op of this name.
Status noSuchOp(const QnnOpPackage_Info_t& package, const char* op);

// Whether a node is for this package; the log has the reason if it is not.
bool isFor(const char* package, const Qnn_OpConfig_t& config);

bool isInteger(Qnn_DataType_t type);

// The width of a type, which the last digits of its code spell.
inline unsigned bitsOf(Qnn_DataType_t type) { return (type >> 4 & 15) * 10 + (type & 15); }

// An element of an array of integers of a type.
long long integerAt(Qnn_DataType_t type, const void* data, std::size_t index);

// Whether a type of integers has a value.
bool fits(long long value, Qnn_DataType_t type);

inline bool isFloat(Qnn_DataType_t type) { return type == QNN_DATATYPE_FLOAT_32 || type == QNN_DATATYPE_FLOAT_16; }

// v1 and v2 of a tensor have the same members up to the client's buffer.
inline const Qnn_TensorV1_t& common(const Qnn_Tensor_t& tensor) { return tensor.v1; }

// True for a NULL tensor.
inline bool isLeftOut(const Qnn_Tensor_t& tensor) { return common(tensor).type == QNN_TENSOR_TYPE_NULL; }

}  // namespace udo
