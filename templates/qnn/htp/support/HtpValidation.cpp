// What HTP accepts: it delivers all types of one width in the same form, and scalars as numbers of 32 bits.
#if !defined(__hexagon__)

namespace udo {
namespace {

// The width of a type that arrives like the others of this width: signed types of 8 and 16 bits as unsigned ones with an
// offset; 0 for other types.
unsigned widthOf(Qnn_DataType_t type) {
  const std::uint32_t family = static_cast<std::uint32_t>(type) & 0xff00;
  if (family == 0x0200 || family > 0x0500) return 0;
  const unsigned bits = bitsOf(type);
  return bits == 8 || bits == 16 || (bits == 32 && family <= 0x0100) ? bits : 0;
}

bool areAlike(Qnn_DataType_t given, Qnn_DataType_t named) { return widthOf(given) != 0 && widthOf(given) == widthOf(named); }

// Whether HTP passes a parameter of one type as it passes the other.
bool areAlikeParams(Qnn_DataType_t given, Qnn_DataType_t named, bool scalar) {
  if (!scalar) return areAlike(given, named);
  return isInteger(given) && isInteger(named) && widthOf(given) != 0 && widthOf(named) != 0;
}

}  // namespace

Status validateNode(const QnnOpPackage_Info_t& package, const OpSpec* spec, const Qnn_OpConfig_t& config) {
  if (!isFor(package.packageName, config)) return QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE;
  if (spec == nullptr) return noSuchOp(package, config.v1.typeName);
  return validateConfig(*spec, config.v1, {areAlike, areAlikeParams, true});
}

}  // namespace udo
#endif
