# The public names; `ops.py` reads them from here.
from udogen.runtime.channel import shared_array as shared_array
from udogen.runtime.execution_counts import executions as executions
from udogen.runtime.hexagon.session import HexagonSession as HexagonSession
from udogen.runtime.op.calls import OpCall as OpCall
from udogen.runtime.op.session import OpSession as OpSession
from udogen.runtime.package_queries import read_registration as read_registration
from udogen.runtime.snpe.host import add_op_package as add_op_package
