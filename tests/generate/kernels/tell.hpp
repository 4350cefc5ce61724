// Reports the arguments of a kernel to a test: lines `field=value` in the log of the package.
#pragma once

#include <cinttypes>
#include <string>
#include <type_traits>

#include "udogen.hpp"

template <class T>
std::string text(T value) {
  if constexpr (std::is_enum_v<T>) {
    return text(static_cast<std::underlying_type_t<T>>(value));
  } else {
    char out[64];
    if constexpr (std::is_same_v<T, bool>) {
      std::snprintf(out, sizeof out, "%s", value ? "true" : "false");
    } else if constexpr (std::is_floating_point_v<T>) {
      std::snprintf(out, sizeof out, "%.17g", static_cast<double>(value));
    } else if constexpr (std::is_signed_v<T>) {
      std::snprintf(out, sizeof out, "%" PRId64, static_cast<std::int64_t>(value));
    } else {
      std::snprintf(out, sizeof out, "%" PRIu64, static_cast<std::uint64_t>(value));
    }
    return out;
  }
}

inline std::string text(const char* value) { return value; }

inline std::string text(const udo::View& view) {
  if (!view) return "absent";
  std::string out = "[";
  for (const std::uint32_t extent : view.shape()) out += (out.size() > 1 ? "," : "") + std::to_string(extent);
  const udo::Quantization quantization = view.quantization();
  if (quantization.scale != 1.0f || quantization.offset != 0) {
    out += " scale " + text(quantization.scale) + " offset " + text(quantization.offset);
  }
  return out + "]";
}

template <class T>
std::string text(const udo::Input<T>& input) {
  std::string out = text(static_cast<const udo::View&>(input));
  if (input) {
    for (const T& each : input) out += " " + text(each);
  }
  return out;
}

template <class T>
std::string text(const udo::Output<T>& output) {
  return text(static_cast<const udo::View&>(output));
}

inline const char* kind(const udo::View& view) {
  return view.isFloat() ? "float" : view.isInt32() ? "int32" : view.isUint32() ? "uint32" : view.isUint8() ? "uint8"
         : view.isBool() ? "bool" : view.isInt8() ? "int8" : "?";
}

inline std::string text(const udo::AnyInput& input) {
  std::string out = text(static_cast<const udo::View&>(input));
  if (!input) return out;
  out += std::string(" ") + kind(input);
  for (std::size_t i = 0; i < input.size(); ++i) out += " " + text(input.real(i));
  return out;
}

inline std::string text(const udo::AnyOutput& output) {
  std::string out = text(static_cast<const udo::View&>(output));
  return output ? out + " " + kind(output) : out;
}

template <class V>
std::string text(const udo::Repeated<V>& all) {
  std::string out = std::to_string(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) out += " " + text(all[i]);
  return out;
}

inline void tell(const char* name, const std::string& value) {
  udo::log(QNN_LOG_LEVEL_INFO, "%s=%s", name, value.c_str());
}

#define TELL(field) tell(#field, text(args.field))
#define TELL_SHAPE(field) tell("prepare " #field, text(static_cast<const udo::View&>(args.field)))
