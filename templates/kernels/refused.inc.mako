// Made by udogen of ${op}.py, with the functions beside this file.
udo::Status ${op}Operation([[maybe_unused]] const Args& args, [[maybe_unused]] udo::Operation& operation) {
  return udo::error("%s", ${refusal});
}
