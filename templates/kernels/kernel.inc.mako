// Made by udogen of ${op}.py, with the functions beside this file.
extern "C" {
% for function in functions:
int ${function.name}(${function.parameters});
% endfor
% if small:
% if alias_on_hexagon:
#if defined(__hexagon__)
% for function in small:
#define ${function.name}_small ${function.name}
% endfor
#else
% endif
% for function in small:
int ${function.name}_small(${function.parameters});
% endfor
% if alias_on_hexagon:
#endif
% endif
% endif
}

const udo::halide::Lines lines_of_tensors[] = {
% for tensor in lines:
    {"${tensor.name}", " (${op}.py:${tensor.numbers})"},
% endfor
    {nullptr, nullptr},
};

% if table:
// Ops of 8 bits look their numbers up in a table that is made once.
struct State {
  bool is_table;
  std::uint8_t table[256];
};

udo::Status prepare(const Args& args, State& state) {
  state.is_table = ${table.test};
  if (!state.is_table) return udo::ok;
  alignas(128) std::uint8_t codes[256];
  for (int code = 0; code < 256; ++code) codes[code] = static_cast<std::uint8_t>(code);
  udo::halide::Call call;
  call.found(codes);
  call.found(state.table);
  udo::halide::View ${table.input}_(codes, 256);
  udo::halide::View ${table.output}_(state.table, 256);
  return ${table.fill};
}

% endif
% if memory:
udo::Status run(const Args& args, udo::halide::Call& call, const udo::halide::Part& part);

// Memory for the functions of one thread is reserved before the first execution.
struct State {
  std::size_t memory;
};

udo::Status prepare(const Args& args, State& state) {
  udo::halide::Call call, none;
  call.measure();
  const udo::Status status = run(args, call, {0, 1});
  state.memory = call.measured();
  const udo::halide::Memory memory(none, state.memory);
  return status;
}

% endif
% if gpu:
% for function in launches:
const udo::halide::Launch ${function.name}_launches[] = {
% for kernel in function.kernels:
    {"${kernel.entry}", "${kernel.name}", "${kernel.arguments}", R"UDO(${kernel.text})UDO"},
% endfor
};

% endfor
udo::Status ${op}Operation([[maybe_unused]] const Args& args, [[maybe_unused]] udo::Operation& operation) {
  udo::halide::Launches call(operation);
% else:
udo::Status calculate(const Args& args${state}, const udo::halide::Part& part) {
  udo::halide::Call call;
% if memory:
  const udo::halide::Memory memory(call, state.memory);
  return run(args, call, part);
}

udo::Status run(const Args& args, udo::halide::Call& call, const udo::halide::Part& part) {
% endif
% endif
  call.setLines(lines_of_tensors);
% for view in views:
  udo::halide::View ${view.name}_(call, "${view.name}", args.${view.name}${view.layout});
% endfor
  if (!call.ok()) return udo::error("%s", call.message());
% for view in views:
% if view.rows:
  if (call.last()) ${view.name}_.dropInner();
% endif
% endfor
% if cut.in_one:
  if (!part.isFirst()) return udo::ok;
% endif
% if cut.rows:
  bool hasWork = false;
% for name in cut.rows:
  if (${name}_.cut(part)) hasWork = true;
% endfor
  if (!hasWork) return udo::ok;
% endif
% if cut.elements:
  if (${cut.same}) {
% for name in cut.elements:
    ${name}_.cutElements(call, args.${name}, part);
% endfor
    if (${cut.first}_.size() == 0) return udo::ok;
  } else if (!part.isFirst()) {
    return udo::ok;
  }
% endif
% for name in inputs:
  ${name}_.prefetch(args.${name});
% endfor
% if table:
  if (state.is_table) {
    udo::halide::View table_(state.table, 256);
    return ${table.look_up};
  }
% endif
% for choice in choices:
  if (${choice.test}) {
% if choice.strided:
    if (!call.last()) return ${choice.strided};
% endif
    return ${choice.call};
  }
% endfor
  return udo::error("no function of ${op}.py is for these data types together");
}
% if not_gpu:

#if defined(UDO_HTP)
udo::Status execute(const Args& args${state}, const udo::Slice& slice) {
  return calculate(args${given_state}, {slice.number(), slice.count()});
}

% if tiles:
udo::Shape steps(const udo::Node& op) { return udo::stepsOfRows(op, ${tiles.cut}, ${tiles.axis}); }

udo::Node tile(const udo::Node& op, const udo::Shape& start, const udo::Shape& extent) {
  return udo::tileOfRows(op, start, extent, ${tiles.cut}, ${tiles.axis});
}

% endif
% if blocks:
bool haveOneShape(const udo::Node& op) { return udo::haveRows(op, ${tiles.cut}, ${tiles.axis}); }

udo::Status executeBlocks(const Args& args${state}, const udo::Slice& slice) {
  const udo::Slice::Range own = slice.of(args.${cut.first}.blockCount());
  for (std::size_t block = own.begin; block < own.end; ++block) {
    const udo::Status status = calculate(args${given_state}, {static_cast<std::uint32_t>(block), 1, true});
    if (status != udo::ok) return status;
  }
  return udo::ok;
}

% endif
void hooks(Hooks& op) {
  op.sameTypes();
% if tiles:
  op.tiles<steps, tile>();
% endif
% for block in blocks:
  op.kernel<${prepare}executeBlocks>()
% for requirement in block.requirements:
      .${requirement}
% endfor
      .when<haveOneShape>();
% endfor
% if blocks:
  op.kernel<${prepare}execute>();
% endif
}
#else
udo::Status execute(const Args& args${state}) { return calculate(args${given_state}, {0, 1}); }
#endif
% endif
