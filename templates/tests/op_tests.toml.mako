# Tests of ${package}: `udogen test` runs them on every available backend.  This file is yours.
#
# Every combination of what a case lists is run.  What it does not give, udogen chooses: shapes for the ranks of the
# config, every data type that the first input can have, ordinary random numbers, tolerances by data type.
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
reference = ${op.reference} # what must come out, in numpy; or onnx:Softmax, torch:nn.functional.softmax
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
