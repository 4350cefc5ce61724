"""A running QNN backend, its log and the processors it runs on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from udogen.qnn import abi
from udogen.qnn.context import Context, ContextOptions
from udogen.qnn.handle import Handle, raw_of
from udogen.qnn.interface import DEBUG, INFO, Interface, LogSink, log_callback, text_of
from udogen.qnn.profile import Profile
from udogen.qnn.tensors import OpConfig

DEFAULT = ContextOptions()


class Log(Handle):
    """Hands the lines of the backend, and of the op packages it registers, to a Python function."""

    def __init__(self, interface: Interface, sink: LogSink, level: int = INFO) -> None:
        self._sink, self._level = sink, level
        self._all: list[tuple[int, str]] | None = None
        self._callback = log_callback(self._hear)
        super().__init__(interface, interface.make("logCreate", self._callback, level), "logFree")

    def _hear(self, level: int, text: str) -> None:
        if self._all is not None:
            self._all.append((level, text))
        if level <= self._level:
            self._sink(level, text)

    @contextmanager
    def everything(self) -> Iterator[list[tuple[int, str]]]:
        """Every line that is logged inside, with its level; the function hears what it always does."""
        lines = self._all = list[tuple[int, str]]()
        try:
            self.interface.call("logSetLogLevel", self.raw, DEBUG)
            yield lines
        finally:
            self._all = None
            self.interface.call("logSetLogLevel", self.raw, self._level)


class Device(Handle):
    """The processor that a backend runs on; HTP can be told which one it shall be, by its SoC or its number."""

    def __init__(
        self, interface: Interface, log: Log | None = None, *, soc: int = 0, number: int | None = None
    ) -> None:
        self._kept: list[Any] = []  # the runtime reads them after this returns
        made = interface.make("deviceCreate", raw_of(log), self._configs(soc, number))
        super().__init__(interface, made, "deviceFree")

    def _configs(self, soc: int, number: int | None) -> Any:
        ffi, rows = abi.ffi(), []
        if soc:
            custom, row = ffi.new("QnnHtpDevice_CustomConfig_t *"), ffi.new("QnnDevice_Config_t *")
            custom.option = ffi.integer_const("QNN_HTP_DEVICE_CONFIG_OPTION_SOC")
            custom.socModelAt4 = custom.socModel = soc
            row.option, row.customConfig = ffi.integer_const("QNN_DEVICE_CONFIG_OPTION_CUSTOM"), custom
            rows.append(row)
            self._kept.append(custom)
        if number is not None:
            rows.append(self._platform(number))
        if not rows:
            return ffi.NULL
        configs = ffi.new("QnnDevice_Config_t const *[]", [*rows, ffi.NULL])
        self._kept += [*rows, configs]
        return configs

    def _platform(self, number: int) -> Any:
        """One device of the platform, with its first core."""
        ffi = abi.ffi()
        cores, device = ffi.new("QnnDevice_CoreInfo_t[1]"), ffi.new("QnnDevice_HardwareDeviceInfo_t[1]")
        cores[0].version = ffi.integer_const("QNN_DEVICE_CORE_INFO_VERSION_1")
        device[0].version = ffi.integer_const("QNN_DEVICE_HARDWARE_DEVICE_INFO_VERSION_1")
        device[0].v1.deviceId, device[0].v1.numCores, device[0].v1.cores = number, 1, cores
        info, row = ffi.new("QnnDevice_PlatformInfo_t *"), ffi.new("QnnDevice_Config_t *")
        info.version = ffi.integer_const("QNN_DEVICE_PLATFORM_INFO_VERSION_1")
        info.v1.numHwDevices, info.v1.hwDevices = 1, device
        row.option, row.hardwareInfo = ffi.integer_const("QNN_DEVICE_CONFIG_OPTION_PLATFORM_INFO"), info
        self._kept += [cores, device, info]
        return row


@dataclass(frozen=True)
class Operation:
    """An op that a backend can run."""

    package: str
    name: str
    target: str


class Backend(Handle):
    """A running backend, to which op packages are registered."""

    def __init__(self, interface: Interface, log: Log | None = None) -> None:
        self._log = log  # the callback must live as long as the backend
        made = interface.make("backendCreate", raw_of(log), abi.ffi().NULL)
        super().__init__(interface, made, "backendFree")

    def register(self, library: Path, provider: str, target: str | None = None) -> None:
        """Load an op package and register its ops."""
        path = str(library).encode()
        where = abi.ffi().NULL if target is None else target.encode()
        self.interface.call("backendRegisterOpPackage", self.raw, path, provider.encode(), where)

    def operations(self) -> list[Operation]:
        """Every op there is, the backend's own and those of registered packages."""
        ffi = abi.ffi()
        count, rows = ffi.new("uint32_t *"), ffi.new("QnnBackend_OperationName_t const **")
        self.interface.call("backendGetSupportedOperations", self.raw, count, rows)
        found = (rows[0][index] for index in range(count[0]))
        return [Operation(text_of(row.packageName), text_of(row.name), text_of(row.target)) for row in found]

    def validate(self, op: OpConfig) -> None:
        """Ask whether the backend, or the op's package, takes this node."""
        self.interface.call_with_op("backendValidateOpConfig", self.raw, op)

    def context(self, device: Device | None = None, options: ContextOptions = DEFAULT) -> Context:
        """A new, empty context."""
        configs, kept = options.configs()
        made = self.interface.make("contextCreate", self.raw, raw_of(device), configs)
        return Context(self.interface, made, kept)

    def restore(
        self,
        binary: Any,
        device: Device | None = None,
        options: ContextOptions = DEFAULT,
        profile: Profile | None = None,
    ) -> Context:
        """The context that was stored as this binary: bytes, or a mapped file."""
        ffi = abi.ffi()
        configs, kept = options.configs()
        held, made = ffi.from_buffer(binary), ffi.new("void **")
        args = (self.raw, raw_of(device), configs, held, len(held), made, raw_of(profile))
        try:
            self.interface.call("contextCreateFromBinary", *args)
        except BaseException:
            ffi.release(held)
            raise
        if not options.deferred:  # such a one reads the binary again, when it is finalized
            ffi.release(held)
            return Context(self.interface, made[0], kept)
        return Context(self.interface, made[0], [*kept, held])
