"""What the ops of ${package} must compute, in numpy.  This file is yours.

Inputs come as real numbers (floats of 64 bits; whole numbers as they are stored), parameters by name, those that a case
leaves out with the default of the config.  An input that is left out is None, a repeated one a list.
"""

import numpy as np
% for op in unwritten:


def ${op.function}(${op.signature}):
    ${op.body}
% endfor
