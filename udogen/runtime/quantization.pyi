# The public names; `quantization.py` reads them from here.
from udogen.qnn.quantization import AxisScaleOffset as AxisScaleOffset
from udogen.qnn.quantization import BlockEncoding as BlockEncoding
from udogen.qnn.quantization import BwAxisScaleOffset as BwAxisScaleOffset
from udogen.qnn.quantization import BwScaleOffset as BwScaleOffset
from udogen.qnn.quantization import ScaleOffset as ScaleOffset
from udogen.runtime.buffers.block_weights import RepackBuffer as RepackBuffer
from udogen.runtime.buffers.block_weights import dequantize_blocks as dequantize_blocks
from udogen.runtime.buffers.block_weights import unrepack_rows as unrepack_rows
from udogen.runtime.contexts.arrays import dequantize as dequantize
from udogen.runtime.contexts.arrays import grid_of as grid_of
from udogen.runtime.contexts.arrays import quantize as quantize
