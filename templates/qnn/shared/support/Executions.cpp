namespace udo {

Status Executions::begin() {
#if defined(UDO_PROVE)
  proveBegin();
#endif
  ++users;
  return ok;
}

Status Executions::end() {
  int count = users.load();
  do {
    if (count == 0) return QNN_OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED;
  } while (!users.compare_exchange_weak(count, count - 1));
#if defined(UDO_PROVE)
  if (count == 1) proveEnd();
#endif
  return ok;
}

std::uint64_t Executions::of(const char* op) const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint64_t count = counters[i].count.load(std::memory_order_relaxed);
    if (op != nullptr && std::strcmp(op, counters[i].op) == 0) return count;
    sum += count;
  }
  return op == nullptr ? sum : UINT64_MAX;
}

}  // namespace udo
