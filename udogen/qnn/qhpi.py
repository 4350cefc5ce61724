"""Kernel records of QHPI as plain data, with names from the header."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from udogen.qnn import abi

# Enumerators of qhpi.h: prefix and names; their values are read from the header.
ELEMENTS = (
    "QHPI_",
    "QUInt8 QUInt16 QInt16 Float32 Int32 QInt32 QInt8 Float16 Int64 Any_Element_Type",
)
LAYOUTS = (
    "QHPI_Layout_",
    "Any ShapeOnly Flat4 Flat5 Flat6 Singular NCHW Depth32 Weights8x4 Crouton_8 Crouton_16 Crouton_32 "
    "Crouton4x1 Crouton2x2 WideCrouton_8 WideCrouton_32 WideCrouton2x2",
)
STORAGE = ("QHPI_Storage_", "Direct Indirect Direct_OR_Indirect")
MEMORY = ("QHPI_MemLoc_", "DDR_Only TCM_Only DDR_OR_TCM")
RESOURCES = ("QHPI_RESOURCE_", "MAIN HVX HMX")

KERNEL_FLAGS = ("source_destructive", "multithreaded", "variable_inputs", "variable_outputs")
KERNEL_HOOKS = ("cost_function", "do_precomputation_function", "function_with_precomputed_data", "predicate")
OP_HOOKS = ("early_rewrite", "shape_required", "shape_legalized", "build_tile", "late_rewrite")

_MOST = 100_000  # of anything in a record: more is a table with another layout


def ops_of(count: int, rows: Any) -> list[dict[str, Any]]:
    """The ops of a call of qhpi_register_ops_v1, as plain data."""
    return [_op(rows[index]) for index in range(_sane(count))]


def _op(row: Any) -> dict[str, Any]:
    return {
        "name": _text(row.name),
        "kernels": [_kernel(row.kernels[index]) for index in range(_sane(row.num_kernels))],
        "hooks": [name for name in OP_HOOKS if getattr(row, name)],
        "tiled_output": int(row.tile_output) if row.build_tile else None,
        "reserved": any(row.reserved),
    }


def _kernel(row: Any) -> dict[str, Any]:
    resources = [word.lower() for value, word in _words(RESOURCES).items() if row.resources & value]
    return {
        "function": _text(row.function_name),
        "inputs": [_signature(row.input_signature[index]) for index in range(_sane(row.min_inputs))],
        "outputs": [_signature(row.output_signature[index]) for index in range(_sane(row.min_outputs))],
        "resources": resources,
        "flags": [name for name in KERNEL_FLAGS if getattr(row, name)],
        "hooks": [name for name in KERNEL_HOOKS if getattr(row, name)],
        "sync_block_size": int(row.sync_block_size),
        "precomputed_data_size": int(row.precomputed_data_size),
        "reserved": any(row.reserved),
    }


def _signature(row: Any) -> dict[str, str]:
    fields = (
        ("type", ELEMENTS, row.element_type),
        ("layout", LAYOUTS, row.layout),
        ("storage", STORAGE, row.storage),
        ("memory", MEMORY, row.mem_placement),
    )
    return {name: _words(table).get(number, str(number)) for name, table, number in fields}


@cache
def _words(table: tuple[str, str]) -> dict[int, str]:
    prefix, names = table
    return {int(abi.ffi().integer_const(prefix + name)): name for name in names.split()}


def is_older(count: int, rows: Any) -> bool:
    """Whether records have the layout before SDK 2.47, without reserved pointers at the end.

    They are read through /proc/self/mem, where an invalid address is an error and no crash.
    """
    ffi, memory = abi.ffi(), os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)

    def number(at: int, size: int) -> int:
        return int.from_bytes(os.pread(memory, size, at), "little")

    def word(at: int) -> bytes:
        return os.pread(memory, 64, number(at, 8)).partition(b"\0")[0]

    def fits(reserved: int) -> bool:
        op, kernel = ("QHPI_OpInfo_v1", "QHPI_Kernel_v1")
        sizes = {name: ffi.sizeof(name) - reserved for name in (op, kernel)}
        base = int(ffi.cast("uintptr_t", rows))
        for at in (base + index * sizes[op] for index in range(count)):
            kernels = number(at + ffi.offsetof(op, "num_kernels"), 4)
            first = number(at + ffi.offsetof(op, "kernels"), 8)
            names = [at + ffi.offsetof(op, "name")]
            names += [
                first + n * sizes[kernel] + ffi.offsetof(kernel, "function_name") for n in range(min(kernels, 99))
            ]
            if kernels > _MOST or not all((text := word(each)) and text.isascii() for each in names):
                return False
        return True

    def readable(reserved: int) -> bool:
        try:
            return fits(reserved)
        except (OSError, OverflowError):  # an invalid address
            return False

    try:
        return not readable(0) and readable(4 * ffi.sizeof("void *"))
    finally:
        os.close(memory)


def _sane(count: int) -> int:
    if count > _MOST:
        raise ValueError(f"a record claims to have {count} parts")
    return count


def _text(pointer: Any) -> str:
    return abi.ffi().string(pointer, 1024).decode("utf-8", "replace") if pointer else ""
