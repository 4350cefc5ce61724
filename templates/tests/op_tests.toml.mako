# Tests of ${package}: `udogen test` runs them on every available backend.  This file is yours.
#
# A case runs every combination of the values that it lists.  Defaults: shapes for the ranks in the config, every data
# type of the first input, normally distributed random numbers, tolerances by data type.
% if config:
config = ${config}
% endif
% for op in ops:

[[op]]
name = ${op.name}
% if op.config:
config = ${op.config}
% endif
% if op.is_own:
reference = ${op.reference} # the expected result in numpy; or onnx:Softmax, torch:nn.functional.softmax
% else:
reference = ${op.reference}
% endif
% if op.cases:

${op.cases}
% else:
% if op.params:
params = { ${op.params} }
% endif

[[op.case]]
% if op.shapes:
shape = [${op.shapes}]
% endif
seed = [1, 2]

[[op.case]]
name = "edge"
values = "edge" # zeros, denormals, the largest and smallest numbers; `nonfinite` has infinities and NaN too
% endif
% endfor
