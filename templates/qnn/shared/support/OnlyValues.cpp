// Defaults of tensors and parameters that support no other value; only in packages with such an op.
#include <cstring>

namespace udo {
namespace {

template <class T>
bool isWhole(T value, const OnlyValue& only, std::size_t at) {
  return only.whole.count != 0 && value == static_cast<T>(only.whole.items[at]) &&
         static_cast<std::int64_t>(value) == only.whole.items[at];
}

template <class T>
bool isReal(T value, const OnlyValue& only, std::size_t at) {
  const T wanted = static_cast<T>(only.reals.items[at]);
  return !(value < wanted) && !(wanted < value) && (value == value) == (wanted == wanted);
}

template <class T>
T element(const void* data, std::size_t at) {
  T value;
  std::memcpy(&value, static_cast<const unsigned char*>(data) + at * sizeof(T), sizeof value);
  return value;
}

bool isElement(const OnlyValue& only, Qnn_DataType_t type, const void* data, std::size_t index, std::size_t at) {
  const auto code = static_cast<std::uint32_t>(type);
  const bool isSigned = (code & 0xff00) == 0x0000 || (code & 0xff00) == 0x0300;
  if (code == 0x0508) return isWhole(static_cast<int>(element<std::uint8_t>(data, index) != 0), only, at);
  if (code == 0x0216) return only.halves.count != 0 && element<std::uint16_t>(data, index) == only.halves.items[at];
  if (code == 0x0232) return isReal(element<float>(data, index), only, at);
  if (code == 0x0264) return isReal(element<double>(data, index), only, at);
  switch (code & 0xff) {
    case 0x08:
      return isSigned ? isWhole(element<std::int8_t>(data, index), only, at)
                      : isWhole(element<std::uint8_t>(data, index), only, at);
    case 0x16:
      return isSigned ? isWhole(element<std::int16_t>(data, index), only, at)
                      : isWhole(element<std::uint16_t>(data, index), only, at);
    case 0x32:
      return isSigned ? isWhole(element<std::int32_t>(data, index), only, at)
                      : isWhole(element<std::uint32_t>(data, index), only, at);
    case 0x64:
      return isSigned ? isWhole(element<std::int64_t>(data, index), only, at)
                      : isWhole(element<std::uint64_t>(data, index), only, at);
    default: return false;
  }
}

}  // namespace

bool isOnly(const OnlyValue& only, Qnn_DataType_t type, const void* data, std::size_t count) {
  if (type == textType) {
    const auto* const given = *static_cast<const char* const*>(data);
    return only.text != nullptr && given != nullptr && std::strcmp(only.text, given) == 0;
  }
  const std::size_t numbers = only.reals.count;
  if (data == nullptr || numbers == 0 || (numbers != 1 && numbers != count)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (!isElement(only, type, data, i, numbers == 1 ? 0 : i)) return false;
  }
  return true;
}

}  // namespace udo
