"""ONNX's ops on tensors of known shapes, for kernels in Python; `udogen onnx fuse` writes kernels that use them."""

from udogen.onnx.kernels.elementwise import *  # noqa: F403  # noqa: F403
from udogen.onnx.kernels.reductions import *  # noqa: F403  # noqa: F403
from udogen.onnx.kernels.shapes import *  # noqa: F403
from udogen.onnx.kernels.values import constant as constant
from udogen.onnx.kernels.values import flat as flat
from udogen.onnx.kernels.values import store as store
from udogen.onnx.kernels.values import tensor as tensor
from udogen.onnx.kernels.windows import *  # noqa: F403
