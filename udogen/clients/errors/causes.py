"""Why errors of QNN and of the DSP come, in the order of likelihood, each with what to do and who saw it."""

from __future__ import annotations

from collections.abc import Mapping

from udogen.clients.errors.model import Cause

_CPU, _HTP = "measured: libQnnCpu 2.47", "measured: libQnnHtp 2.47 to 2.51, x86"

SKEL = (
    Cause(
        "ADSP_LIBRARY_PATH is separated by `:`; the DSP's loader takes the whole list as the name of one folder",
        "separate it by `;`: export ADSP_LIBRARY_PATH='/folder/of/skel;/vendor/dsp/cdsp;/vendor/lib/rfsa/adsp;/dsp'",
        "qualcomm/fastrpc #379",
    ),
    Cause(
        "ADSP_LIBRARY_PATH does not name the folder of libQnnHtpV<version>Skel.so; that it lies beside libQnnHtp.so is "
        "not enough",
        "set it before the process starts, or before QNN is first used in it",
        "onnxruntime/onnxruntime-qnn #593",
    ),
    Cause(
        "one of the libraries that belong together is missing on the device",
        "push libQnnHtp.so, libQnnSystem.so, libQnnHtpPrepare.so, libQnnHtpV<version>Stub.so and ...Skel.so together",
        "pytorch/executorch #9084",
    ),
    Cause(
        "the libraries are of different SDK releases, or the skel is for another version of Hexagon",
        "take all of them from one SDK, the skel of the SoC's version (`udogen list archs`); `udogen inspect FOLDER` "
        "tells what each is of",
        "pytorch/executorch #8762",
    ),
)
_APP = Cause(
    "an Android app may not load libcdsprpc.so: its manifest does not ask for it",
    '<uses-native-library android:name="libcdsprpc.so" android:required="false"/> in <application>',
    "qualcomm/fastrpc #379",
)
SIGNATURE = Cause(
    "the process on the DSP is a signed one, and the library is not signed (`signature verify start failed`)",
    "ask for an unsigned process domain; of SNPE: --platform_options unsignedPD:ON",
    "chraac/llama.cpp #41",
)
_UNDEFINED = Cause(
    "of an op package: it leaves symbols undefined that nobody on the DSP has",
    "udogen inspect LIBRARY --against libQnnHtpV<version>Skel.so",
    "measured: a loader of ours under qemu-hexagon",
)
CRASHED = (
    Cause(
        "a kernel crashed on the DSP, and with it the whole process there",
        "run the kernel under qemu-hexagon (`udogen run op … --backend hexagon`); logcat -s adsprpc is the DSP's log",
        "b1xian/mobilenet-ssd-snpe #6",
    ),
    Cause("the DSP was restarted", "make backend, context and graphs anew", "documented: QNN, HTP backend, SSR"),
)
_TWO_LIBRARIES = Cause(
    "on a device HTP needs two libraries of the package, and one of them is not registered, or has the other's place",
    "register the ARM one by its full path for the target CPU and the Hexagon one by its name for HTP, under "
    "different file names: `udogen register DIR --client …  --target v75` prints it",
    "UbiquitousLearning/mllm #265",
)
_OTHER_RELEASE = Cause(
    "the package is built with the C++ headers of another SDK release than the runtime's",
    "build it with that release's headers, or generate it with --htp-api qhpi: that one fits all since 2.47",
    _HTP,
)

BY_CODE: Mapping[tuple[str, int], tuple[Cause, ...]] = {
    ("dsp", 0x06): (*SKEL, SIGNATURE, _UNDEFINED),
    ("dsp", 0x0D): CRASHED,
    ("dsp", 0x14): (
        Cause(
            "the firmware is older than what is asked of it; while a session begins that is a question, and harmless",
            "look whether the call of yours failed; if so, another SDK release, or newer firmware",
            "qualcomm/fastrpc #342, and its troubleshooting guide",
        ),
    ),
    ("dsp", 0x16): (
        Cause(
            "the program ran as root (`su -c`); the same program ran on another device without",
            "run it as the user `shell`; a root shell may have other rights for the DSP",
            "pytorch/executorch #7492, chraac/llama.cpp #41",
        ),
    ),
    ("dsp", 0x38): (SIGNATURE,),
    ("dsp", 0x72): (
        Cause(
            "the user may not open /dev/fastrpc-*",
            "usermod -aG fastrpc USER, and log in again",
            "documented: qualcomm/fastrpc, troubleshooting",
        ),
        SIGNATURE,
    ),
    ("dsp", 0x81): (SIGNATURE,),
    ("dsp", 0x200): (
        Cause(
            "the skel was not found by the DSP's loader, or is of another release than the library on ARM",
            "put the skel of the same SDK into a folder of your own, first in ADSP_LIBRARY_PATH",
            "qualcomm/ai-hub-apps #158",
        ),
    ),
    ("dsp", 104): CRASHED,
    ("qnn", 1000): (
        Cause(
            "the libraries for x86 do not have it: registered memory, weight sharing, and more",
            "try it on a device, or in udogen's emulator (--runtime emulator), which has registered memory",
            _HTP,
        ),
    ),
    ("qnn", 1002): (
        Cause(
            "on HTP an op does not fit into TCM (`not sufficiently tiled`, `requires … bytes of TCM`); that line comes "
            "only with verbose logs",
            "make the tensors smaller, or let the op be tiled: `op.tiles<…>()` in hooks(), docs/htp.md",
            "microsoft/onnxruntime #24876",
        ),
        Cause(
            "memory that DSP and ARM share cannot be mapped: the weights are too large for what the DSP may address",
            "split the model into several contexts, `udogen run context` plans that; other apps may hold some too",
            "pytorch/executorch #4517",
        ),
        Cause(
            "two declarations of the package contradict each other (`Memory properties specified twice`)",
            "one DEF_TENSOR_PROPERTIES for each op",
            "microsoft/T-MAC #102",
        ),
        *SKEL[:2],
    ),
    ("qnn", 1003): SKEL[2:],
    ("qnn", 1007): (*CRASHED, *SKEL[:2]),
    ("qnn", 1008): (SKEL[3], *SKEL[:3]),
    ("qnn", 1009): SKEL,
    ("qnn", 1011): CRASHED,
    ("qnn", 3110): (
        Cause(
            "number, type, rank or shape of the node's tensors, or a parameter, is not what the op's config allows",
            "`udogen run op … -v` with the same tensors says which; the package logs the reason, the runtime nothing",
            _CPU,
        ),
        Cause(
            "the client gives the op other types or layouts than the model shows: converters and execution providers "
            "transpose and quantize, and HTP does not have every op in floats",
            "look at the node in the client's verbose log; allow that layout or type in the config",
            "microsoft/onnxruntime #22532",
        ),
        Cause(
            "the skel was not found, and what runs instead knows fewer ops: then many ops fail alike",
            SKEL[0].remedy,
            "onnxruntime/onnxruntime-qnn #593",
        ),
        Cause("the op's type is not in the registered package", "`udogen inspect LIBRARY` lists its ops", _CPU),
    ),
    ("qnn", 4000): (
        _APP,
        Cause(
            "the library for FastRPC, libcdsprpc.so, is missing or may not be loaded (`Unable to load Remote symbols`)",
            "put /vendor/lib64 behind your own folders in LD_LIBRARY_PATH; in an app: the manifest",
            "UbiquitousLearning/mllm #341",
        ),
        *SKEL,
    ),
    ("qnn", 4003): (
        Cause("on x86 the target of an HTP package must be CPU or absent", "leave the target out", _HTP),
        Cause(
            "the backend takes no op packages: IR, LPAI over FastRPC, Saver",
            "choose another",
            "pytorch/executorch #22659",
        ),
    ),
    ("qnn", 4004): (Cause("the path is NULL or empty", "give the library's path", _CPU),),
    ("qnn", 4005): (
        Cause("there is no file at this path, seen from the process that registers", "give an absolute path", _CPU),
        Cause(
            "the library cannot be loaded: another machine's, or symbols that nobody has",
            "udogen inspect LIBRARY",
            _CPU,
        ),
        Cause(
            "undefined symbols of HTP (`_ZTIN4hnnx…`, `qhpi_…`): the client opened libQnnHtp.so without RTLD_GLOBAL",
            "open it with RTLD_NOW | RTLD_GLOBAL, or preload it (LD_PRELOAD)",
            "pytorch/executorch #18149",
        ),
        _TWO_LIBRARIES,
        Cause("a node names a package that is not registered", "packageName is the one that getInfo returns", _CPU),
        SKEL[0],
    ),
    ("qnn", 4006): (
        Cause(
            "the name of the interface provider is wrong; it is a function of the library, not the package",
            "`udogen inspect LIBRARY` lists those it has: usually <Package>InterfaceProvider",
            _CPU,
        ),
        Cause("the library hides it", 'declare it with visibility(default), and extern "C"', _CPU),
    ),
    ("qnn", 3000): (
        Cause(
            "another backend, or session, of the process has this package: each one calls the package's init, and the "
            "package takes the call once",
            "let init count its calls, as packages of udogen do: generate and build it again; else one session per "
            "process, or release the earlier one first",
            "measured: two sessions of ONNX Runtime 1.27 with libQnnCpu 2.47, and a package whose init refuses",
        ),
    ),
    ("qnn", 4007): (
        Cause(
            "a package of this name is registered already: clients with one entry per op register it once per entry",
            "name each library once; `udogen register` refuses what a client cannot take",
            "measured: ONNX Runtime 1.27 with libQnnCpu 2.47",
        ),
        Cause(
            "two versions of the library, or its ARM and its Hexagon half, have one name for one target",
            "register each target once",
            _HTP,
        ),
        Cause("its init failed", "see the package's own log lines", _CPU),
    ),
    ("qnn", 4008): (
        Cause("the interface's version is not 1.x, or a member of it is NULL", "set it to 1.4.0 and fill v1_4", _CPU),
        _OTHER_RELEASE,
    ),
    ("qnn", 4009): (Cause("registered twice", "register each package once per backend", _CPU),),
    ("qnn", 5000): (
        Cause(
            "the context binary is of a newer SDK than the runtime, or for another chip",
            "a runtime at least as new as what made it; make it for this chip",
            "qualcomm/ai-hub-apps #148",
        ),
    ),
    ("qnn", 5003): (
        Cause("a graph failed to finalize, and went on", "the error before this one", "pytorch/executorch #1430"),
    ),
    ("qnn", 5005): (
        Cause("its op packages are not registered", "register them before, also where they only execute", _HTP),
        Cause("the context binary is of another release or backend", "make it anew", "qualcomm/ai-hub-apps #148"),
    ),
    ("qnn", 6001): (
        Cause(
            "the graph's context was freed, or its DSP was restarted",
            "keep context and backend as long as their graphs; make them anew after a restart",
            "documented: QNN, HTP backend, SSR",
        ),
        Cause(
            "of ONNX Runtime: a model that fails so may run as a context binary",
            "make one (ep.context_enable=1, or the converters), and run that",
            "microsoft/onnxruntime #25335",
        ),
    ),
    ("qnn", 6004): (
        Cause("execute was not given exactly the graph's inputs and outputs, by id", "all of them, each once", _CPU),
        Cause("a tensor was not created in this graph", "tensorCreateGraphTensor before graphAddNode", _CPU),
    ),
    ("qnn", 6005): (
        Cause(
            "the backend does not take the node's ranks or parameters",
            "compare with the op's definition",
            "gesanqiu/Chinese_MobileBert_on_SNPE #1",
        ),
    ),
    ("qnn", 6022): (
        Cause("the graph has no node", "add one before graphFinalize", _CPU),
        Cause("createOpImpl of an op failed", "see the package's own log lines", _CPU),
    ),
    ("qnn", 7004): (
        Cause("a rank, shape, type or quantization that the backend does not take", "compare with its tables", _CPU),
        Cause("a tensor that is not static has data when it is created", "leave clientBuf empty until execute", _HTP),
    ),
    ("qnn", 14001): (
        *SKEL[:3],
        _APP,
        SKEL[3],
        Cause(
            "soc_model, htp_arch or device_id name another device than this one",
            "leave them out",
            "onnxruntime/onnxruntime-qnn #715",
        ),
    ),
    ("qnn", 14002): (
        Cause("the device, or the core, is not there or in use", "fewer sessions; `udogen doctor` on the device", _HTP),
    ),
    ("qnn", 30002): (
        Cause(
            "the context has nothing to save: a graph of it is not finalized",
            "the error before this one",
            "pytorch/executorch #7946",
        ),
    ),
    ("qnn", 30010): (
        Cause("the file is none, or cut off", "`udogen inspect FILE.bin` tells", "measured: libQnnSystem 2.47"),
        Cause(
            "a program that is built for another delegate, with a model for QNN",
            "build it with the QNN backend",
            "pytorch/executorch #6820",
        ),
        Cause(
            "ExecuTorch tries several formats one after the other, and says this of the first; then it is harmless",
            "look whether the model was loaded after all",
            "pytorch/executorch #8640",
        ),
    ),
}
