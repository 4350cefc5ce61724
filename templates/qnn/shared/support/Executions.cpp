namespace udo {

Status Executions::begin() {
#if defined(UDO_PROVE)
  proveBegin();
#endif
  ++users_;
  return ok;
}

Status Executions::end() {
  int users = users_.load();
  do {
    if (users == 0) return QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED;
  } while (!users_.compare_exchange_weak(users, users - 1));
#if defined(UDO_PROVE)
  if (users == 1) proveEnd();
#endif
  return ok;
}

std::uint64_t Executions::of(const char* op) const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    const std::uint64_t count = counters_[i].count();
    if (op != nullptr && std::strcmp(op, counters_[i].op()) == 0) return count;
    sum += count;
  }
  return op == nullptr ? sum : UINT64_MAX;
}

}  // namespace udo
