// make looks for this name.
#define UDO_VENDOR_STYLE 1

namespace udo {

// Completes the parameters of a node, because such kernels may read them by position: in the order of the config, or
// sorted by name, as SNPE passes them.  `put(position, parameter, default or null)` returns whether the node has the
// parameter, or it has a default.  Returns the name of a parameter that is missing; null if there is none.
template <class Put>
const char* completeParams(const OpSpec& spec, bool sorted, const Put& put) {
  const char* missing = nullptr;
  for (std::size_t i = 0; i < spec.params.count; ++i) {
    const ParamSpec& param = spec.params.items[i];
    std::size_t position = sorted ? 0 : i;
    for (const ParamSpec& each : spec.params) position += sorted && std::strcmp(each.name, param.name) < 0 ? 1 : 0;
    const ParamDefault* otherwise = nullptr;
    for (const ParamDefault& each : spec.defaults) otherwise = each.param == i ? &each : otherwise;
    if (!put(position, param, otherwise)) missing = param.name;
  }
  return missing;
}

inline Status isMissing(const char* param) {
  return error("parameter `%s` is missing and has no default, and the kernel may read parameters by position: give it, "
               "or a default in the config", param);
}

}  // namespace udo
