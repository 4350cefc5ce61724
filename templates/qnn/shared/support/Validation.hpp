// Compares the config of a node with the description of its op.

namespace udo {

/// How the backends differ.
struct ValidationRules {
  // Whether a tensor may have one type if the config names another; null: only the named ones.
  bool (*alike)(Qnn_DataType_t given, Qnn_DataType_t named) = nullptr;
  // The same for a parameter; integers must fit into the named type.  ONNX Runtime passes them all as INT_32.
  bool (*converts)(Qnn_DataType_t given, Qnn_DataType_t named, bool scalar) = nullptr;
  bool everyInput = false;  // optional inputs cannot be left out
};

/// HTP delivers all types of one width in the same form, and identifies parameters by their position after the inputs.
ValidationRules rulesOfHtp();

/// The CPU package converts integers.
ValidationRules rulesOfCpu();

/// On the GPU the backend chooses between floats of 16 and of 32 bits.
ValidationRules rulesOfGpu();

/// `ok`, or the error of validation; the log has the reason.
Status validateConfig(const OpSpec& spec, const Qnn_OpConfigV1_t& config, const ValidationRules& rules = {});

/// The same for a node of any op of an HTP package; on the DSP the host has validated it already.
#if defined(__hexagon__)
inline Status validateNode(const QnnOpPackage_Info_t&, List<OpSpec>, const Qnn_OpConfig_t&) { return ok; }
#else
Status validateNode(const QnnOpPackage_Info_t& package, List<OpSpec> ops, const Qnn_OpConfig_t& config);
#endif

/// The error if a package has no op of this name.
Status noSuchOp(const QnnOpPackage_Info_t& package, const char* op);

/// Why this thread's last config was refused, as data; the log has the sentence.
struct Refusal {
  enum Kind : std::uint32_t {
    value,  // or nothing was refused, or the node is not for an op of the package
    type,   // of a tensor or parameter: `accepted` are the data types that it may have
    rank,   // `accepted` are the ranks
    other   // the op has other inputs, outputs or parameters
  };
  Kind kind = value;
  const char* name = nullptr;  // of the tensor or parameter
  const void* accepted = nullptr;  // numbers of 32 bits
  std::size_t count = 0;
};
const Refusal& refusal();

/// Whether a node is for this package; the log has the reason if it is not.
bool isFor(const char* package, const Qnn_OpConfig_t& config);

bool isInteger(Qnn_DataType_t type);

/// An element of an array of integers of a type.
long long integerAt(Qnn_DataType_t type, const void* data, std::size_t index);

/// Whether a type of integers has a value.
bool fits(long long value, Qnn_DataType_t type);

inline bool isFloat(Qnn_DataType_t type) { return type == QNN_DATATYPE_FLOAT_32 || type == QNN_DATATYPE_FLOAT_16; }

/// v1 and v2 of a tensor have the same members up to the client's buffer.
inline const Qnn_TensorV1_t& common(const Qnn_Tensor_t& tensor) { return tensor.v1; }

/// True for a NULL tensor.
inline bool isLeftOut(const Qnn_Tensor_t& tensor) { return common(tensor).type == QNN_TENSOR_TYPE_NULL; }

}  // namespace udo
