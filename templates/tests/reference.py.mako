"""The expected results of the ops of ${package}, in numpy.  This file is yours.

Inputs are real numbers (float64); integers keep their type, so a sum of uint8 wraps unless you widen it: `a.astype(int)`.
Parameters are passed by name; one that a case omits has its default from the config.  An omitted input is None, a
repeated input is a list.
"""

import numpy as np
% for op in unwritten:


def ${op.function}(${op.signature}):
    ${op.body}
% endfor
