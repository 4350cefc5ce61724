"""Numbers of FastRPC: what a DSP answers is 0x80000400 more than what the side of ARM answers itself."""

from __future__ import annotations

from typing import NamedTuple

OFFSET = 0x80000400  # DSP_AEE_EOFFSET
_SPAN = 0x300


class Row(NamedTuple):
    """One number, without the offset."""

    code: int
    name: str
    meaning: str


ALL = (
    Row(0x01, "AEE_EFAILED", "a failure without a number of its own"),
    Row(0x02, "AEE_ENOMEMORY", "out of memory"),
    Row(0x03, "AEE_ECLASSNOTSUPPORT", "this class is not supported"),
    Row(0x04, "AEE_EVERSIONNOTSUPPORT", "this version is not supported"),
    Row(0x05, "AEE_EALREADYLOADED", "it is loaded already; a session is open"),
    Row(0x06, "AEE_EUNABLETOLOAD", "a library could not be loaded on the DSP: a skel, or an op package for Hexagon"),
    Row(0x07, "AEE_EUNABLETOUNLOAD", "a library could not be unloaded"),
    Row(0x08, "AEE_EALARMPENDING", "an alarm is pending"),
    Row(0x09, "AEE_EINVALIDTIME", "the time is not valid"),
    Row(0x0A, "AEE_EBADCLASS", "an object of no class"),
    Row(0x0B, "AEE_EBADMETRIC", "the metric is not valid"),
    Row(0x0C, "AEE_EEXPIRED", "it has expired"),
    Row(0x0D, "AEE_EBADSTATE", "the process on the DSP is not in the state for this: mostly it has crashed"),
    Row(0x0E, "AEE_EBADPARM", "an argument is not valid"),
    Row(0x0F, "AEE_ESCHEMENOTSUPPORTED", "the URL's scheme is not supported"),
    Row(0x10, "AEE_EBADITEM", "a value out of range"),
    Row(0x11, "AEE_EINVALIDFORMAT", "the format is not valid"),
    Row(0x12, "AEE_EINCOMPLETEITEM", "an item is not complete, such as a text that is too short"),
    Row(0x13, "AEE_ENOPERSISTMEMORY", "no flash memory left"),
    Row(0x14, "AEE_EUNSUPPORTED", "the firmware of the DSP does not have this function"),
    Row(0x15, "AEE_EPRIVLEVEL", "not enough privileges"),
    Row(0x16, "AEE_ERESOURCENOTFOUND", "a resource was not found"),
    Row(0x17, "AEE_EREENTERED", "a function was entered twice at once"),
    Row(0x18, "AEE_EBADTASK", "called in the wrong task"),
    Row(0x19, "AEE_EALLOCATED", "memory was left behind"),
    Row(0x1A, "AEE_EALREADY", "this is in progress already"),
    Row(0x1D, "AEE_EMEMPTR", "a pointer into memory is not valid"),
    Row(0x1E, "AEE_EHEAP", "the heap is damaged"),
    Row(0x20, "AEE_EITEMBUSY", "it is busy"),
    Row(0x26, "AEE_EBUFFERTOOSMALL", "a buffer is too small"),
    Row(0x2B, "AEE_ENOTALLOWED", "this is not allowed"),
    Row(0x2C, "AEE_EINVHANDLE", "the handle is not valid"),
    Row(0x2D, "AEE_EOUTOFHANDLES", "no handle is left"),
    Row(0x2F, "AEE_ENOMORE", "nothing more"),
    Row(0x30, "AEE_ECPUEXCEPTION", "an exception of the processor"),
    Row(0x31, "AEE_EREADONLY", "it cannot be written"),
    Row(0x34, "AEE_EINVALIDPROCESS", "the process is not valid"),
    Row(0x35, "AEE_EINVALIDFILENAME", "the file's name is not valid"),
    Row(0x37, "AEE_EINVALIDSEGS", "the segments of a library are not valid"),
    Row(0x38, "AEE_EINVALIDSIGNATURE", "the signature of a library is not valid"),
    Row(0x39, "AEE_EINVALIDDOMAIN", "there is no such DSP"),
    Row(0x3A, "AEE_EINVALIDFD", "the file descriptor is not valid"),
    Row(0x3B, "AEE_EINVALIDDEVICE", "the device file of the DSP cannot be opened"),
    Row(0x3C, "AEE_EINVALIDMODE", "the mode is not valid"),
    Row(0x3E, "AEE_ENOSUCHMOD", "there is no such module"),
    Row(0x40, "AEE_ENOSUCHTHREAD", "there is no such thread"),
    Row(0x41, "AEE_ENOSUCHPROCESS", "there is no such process"),
    Row(0x42, "AEE_ENOSUCHSYMBOL", "there is no such symbol"),
    Row(0x43, "AEE_ENOSUCHDEVICE", "there is no such device"),
    Row(0x45, "AEE_ENOSUCHFILE", "there is no such file"),
    Row(0x46, "AEE_ENOSUCHHANDLE", "there is no such handle"),
    Row(0x48, "AEE_ENOSUCHMAP", "the DSP has no such mapping"),
    Row(0x4B, "AEE_EBADDOMAIN", "the DSP is not initialized"),
    Row(0x4D, "AEE_EBADSIZE", "a size is not valid"),
    Row(0x4E, "AEE_EBADPERMS", "not the permissions for this memory or file"),
    Row(0x4F, "AEE_EBADFD", "the file descriptor is not valid"),
    Row(0x52, "AEE_EBADELF", "not a valid ELF file"),
    Row(0x54, "AEE_EBADCONTEXT", "the context is not valid"),
    Row(0x55, "AEE_EBADMEMALIGN", "memory is not aligned"),
    Row(0x56, "AEE_EIOCTL", "a call of the driver failed"),
    Row(0x57, "AEE_EFOPEN", "a file, or the device of the DSP, cannot be opened"),
    Row(0x65, "AEE_EMMAP", "memory cannot be mapped"),
    Row(0x66, "AEE_EIONMAP", "shared memory cannot be mapped"),
    Row(0x67, "AEE_EIONALLOC", "no shared memory left"),
    Row(0x68, "AEE_ENORPCMEMORY", "no shared memory left"),
    Row(0x69, "AEE_ENOROOTOFTRUST", "nothing to check signatures with"),
    Row(0x6B, "AEE_ENOTINITIALIZED", "it is not initialized"),
    Row(0x6C, "AEE_EUNSUPPORTEDAPI", "this function is not supported"),
    Row(0x71, "AEE_EINVARGS", "the arguments are not valid"),
    Row(0x72, "AEE_ECONNREFUSED", "the DSP refuses the connection"),
    Row(0x81, "AEE_EUNSIGNEDMOD", "no test signature, and the library is not signed"),
    Row(0x82, "AEE_EINVALIDHASH", "the library is not the one that was signed"),
    Row(0x83, "AEE_EBADVA", "an address is not valid"),
    Row(0x88, "AEE_ENOFREESECTION", "no section is left"),
    Row(0x8A, "AEE_ENOSESSION", "no session is left"),
    Row(0x200, "AEE_ERPC", "FastRPC itself failed"),
    Row(0x201, "AEE_EFILE", "a file could not be handled"),
)
# The same on both sides.
OTHERS = (
    Row(39, "AEE_ENOSUCH", "there is no such name, port or socket"),
    Row(46, "AEE_EINTERRUPTED", "a wait was interrupted"),
    Row(104, "AEE_ECONNRESET", "the DSP has closed the connection: it was restarted"),
    Row(516, "AEE_EWOULDBLOCK", "it would have to wait"),
)
_BY_CODE = {row.code: row for row in ALL}


def find(code: int) -> Row | None:
    """The row of a number as a DSP gives it, 0x80000406; a stand-in where the offset is right and the rest unknown."""
    if OFFSET < code < OFFSET + _SPAN:
        rest = code - OFFSET
        return _BY_CODE.get(rest, Row(rest, f"DSP_AEE_EOFFSET + 0x{rest:03x}", "an error of the DSP without a name"))
    return None


def find_small(code: int) -> Row | None:
    """The row of a number as the side of ARM gives it, 0x6."""
    return _BY_CODE.get(code) or next((row for row in OTHERS if row.code == code), None)
