# The public names; `__init__.py` reads them from here.
from udogen.qnn.handles import ContextOptions as ContextOptions
from udogen.qnn.interface import QnnError as QnnError
from udogen.qnn.tensors import OpConfig as OpConfig
from udogen.qnn.tensors import QnnTensor
from udogen.qnn.tensors import Scalar as Scalar
from udogen.runtime.buffers.buffer import Buffer as Buffer
from udogen.runtime.buffers.constants import Constants as Constants
from udogen.runtime.buffers.domains import BufferDesc as BufferDesc
from udogen.runtime.buffers.domains import MemoryDomain as MemoryDomain
from udogen.runtime.buffers.domains import Role as Role
from udogen.runtime.built import adsp_library_path as adsp_library_path
from udogen.runtime.built import find_built as find_built
from udogen.runtime.built import find_source as find_source
from udogen.runtime.built import op_libraries as op_libraries
from udogen.runtime.built import register_package as register_package
from udogen.runtime.contexts.binaries import StoredContext as StoredContext
from udogen.runtime.contexts.builder import GraphDraft as GraphDraft
from udogen.runtime.contexts.commands import OpLibrary as OpLibrary
from udogen.runtime.contexts.context import Context as Context
from udogen.runtime.contexts.graph import Graph as Graph
from udogen.runtime.contexts.runtime import Runtime as Runtime
from udogen.runtime.failures import OpCrashed as OpCrashed
from udogen.runtime.failures import OpFailed as OpFailed
from udogen.runtime.failures import OpRefused as OpRefused
from udogen.runtime.failures import OpTimedOut as OpTimedOut
from udogen.runtime.failures import RegistrationFailed as RegistrationFailed
from udogen.runtime.library import find_runtime as find_runtime
from udogen.runtime.models.description import ModelDescription as ModelDescription

Tensor = QnnTensor
