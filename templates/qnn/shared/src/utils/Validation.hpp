// Auto-generated part of every op package that udogen generates; regenerating rewrites this file.
//
// Holds the config of a node against what its op looks like.
#pragma once

#include "BackendUtils.hpp"

namespace udo {

/// In what the backends differ.
struct ValidationRules {
  bool floatsAreOne = false;  // FLOAT_16 is taken where FLOAT_32 is, and the other way round
};

/// `ok`, or the error of validation; says in the log what is wrong.
Status validateConfig(const OpSpec& spec, const Qnn_OpConfigV1_t& config, ValidationRules rules = {});

/// The answer where a package has no op of this name; `known` are those it has.
Status noSuchOp(const char* package, const char* op, const char* known);

/// True for a tensor that stands for none.
bool isLeftOut(const Qnn_Tensor_t& tensor);

}  // namespace udo
