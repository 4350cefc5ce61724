"""`udogen explain`: numbers in all notations, names, unknown ones, and logs; the tables themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomllib

from tests.command_line import udogen
from udogen import UsageError, resources
from udogen.clients import explain
from udogen.error_tables import INTERFACES, ErrorCause, interface, log_lines, printed_numbers

LOGS = Path(__file__).with_name("logs")


@pytest.mark.parametrize(
    ("text", "family", "code", "name"),
    [
        ("3110", "qnn", 3110, "QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE"),
        ("0xc26", "qnn", 3110, "QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE"),
        ("0x138b", "qnn", 5003, "QNN_CONTEXT_ERROR_NOT_FINALIZED"),
        ("13003", "qnn", 13003, "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_TRANSPORT"),
        ("69542", "qnn", 4006, "QNN_BACKEND_ERROR_OP_PACKAGE_IF_PROVIDER_NOT_FOUND"),  # 0x10000 + 4006
        ("0x80000406", "dsp", 0x80000406, "AEE_EUNABLETOLOAD"),
        ("80000406", "dsp", 0x80000406, "AEE_EUNABLETOLOAD"),
        ("2147484678", "dsp", 0x80000406, "AEE_EUNABLETOLOAD"),
        ("-2147482618", "dsp", 0x80000406, "AEE_EUNABLETOLOAD"),
        ("0xffffffff80000406", "dsp", 0x80000406, "AEE_EUNABLETOLOAD"),
        ("18446744071562068998", "dsp", 0x80000406, "AEE_EUNABLETOLOAD"),
        ("0x80000463", "dsp", 0x80000463, "DSP_AEE_EOFFSET + 0x063"),
        ("1106", "snpe", 1106, "SNPE_ERRORCODE_UDO_REGISTRATION_FAILED"),
        ("0x14", "executorch", 0x14, "OperatorMissing"),
        ("qnn_graph_error_invalid_tensor", "qnn", 6004, "QNN_GRAPH_ERROR_INVALID_TENSOR"),
        ("AEE_ECONNREFUSED", "dsp", 0x80000472, "AEE_ECONNREFUSED"),
        ("kLiteRtStatusErrorCompilation", "litert", 504, "kLiteRtStatusErrorCompilation"),
        ("ORT_NOT_IMPLEMENTED", "ort", 9, "NOT_IMPLEMENTED"),
        ("SNPE_ERRORCODE_QNN_MEM_ERROR_MAPPING", "snpe", 9003, "SNPE_ERRORCODE_QNN_MEM_ERROR_MAPPING"),
        ("0", "qnn", 0, "QNN_SUCCESS"),
    ],
)  # fmt: skip
def test_a_number_in_every_disguise(text: str, family: str, code: int, name: str) -> None:
    found = [(each.interface, each.code, each.name) for each in explain.explain_error(text)]
    assert (family, code, name) in found


def test_a_bare_number_has_every_reading() -> None:
    _, only, _ = found = explain.explain_error("4000")
    assert [each.interface for each in found] == ["qnn", "snpe", "litert"]
    assert (only.name, only.same) == ("SNPE_ERRORCODE_QNN_OP_PACKAGE_ERROR_LIBRARY_ALREADY_INITIALIZED", "3000 of QNN")


def test_numbers_of_snpe_are_a_thousand_more_than_those_of_qnn() -> None:
    [own] = explain.meanings_of(7005, of="snpe")
    [inner] = explain.meanings_of(6005, of="qnn")
    assert (own.meaning, own.causes) == (inner.meaning, inner.causes)
    assert own.causes


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "3111",
            "3111 is not a known error number",
            "the nearest number of QNN is 3110 (QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE)",
        ),
        (
            "99999",
            "99999 is not a known error number",
            "numbers of QNN are 1000 to 15000 and 30000, of a DSP 0x80000401 to 0x80000601; is it truncated?",
        ),
        (
            "QNN_OP_PACKAGE_ERROR_VALIDATON_FAILURE",
            "`QNN_OP_PACKAGE_ERROR_VALIDATON_FAILURE` is not a known error",
            "did you mean QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE?",
        ),
        (
            "UNABLETOLOAD",
            "`UNABLETOLOAD` is not a known error",
            "did you mean AEE_EUNABLETOLOAD or DSP_AEE_EUNABLETOLOAD?",
        ),
        ("run/x.log", "run/x.log does not exist", "give a log file, an error number or its name"),
        (
            "zzzz",
            "`zzzz` is not a known error",
            "give a number, a name such as QNN_…_ERROR_…, or a log file",
        ),
    ],
)
def test_what_is_unknown(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        explain.explain_error(text)
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert caught.value.exit_code == 2


# --- logs -----------------------------------------------------------------------------------------


TITLES = {
    "executorch.log": [
        "prepare-not-loaded", "0x80000406 AEE_EUNABLETOLOAD", "no-skel", "1008 QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES",
        "et-registration", "4005 QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND", "0x1 Internal",
    ],
    "executorch_pc.log": [
        "et-arguments", "et-no-package", "4005 QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND", "et-variants", "no-such-op",
        "soc-elsewhere", "14001 QNN_DEVICE_ERROR_INVALID_CONFIG",
    ],
    "onnxruntime.log": [
        "ort-package-error", "ort-success", "3110 QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE", "tcm",
        "1002 QNN_COMMON_ERROR_MEM_ALLOC", "11 EP_FAIL", "ort-shared-dequantize",
    ],
    "onnxruntime_contexts.log": [  # of sessions that were opened with faulty models, and of one that fails when it runs
        "ort-success", "ort-context-places", "ort-context-size", "11 EP_FAIL", "ort-retry", "ort-context-lost",
        "9 NOT_IMPLEMENTED", "ort-context-file", "10 INVALID_GRAPH", "ort-context-name", "ort-dynamic",
        "ort-options-again", "1 FAIL", "ort-cpu-fallback", "ort-no-library", "ort-no-provider",
    ],
    "snpe.log": [
        "7005 SNPE_ERRORCODE_QNN_GRAPH_ERROR_INVALID_OP_CONFIG", "914 SNPE_ERRORCODE_DSP_UDO_LIB_NOT_REGISTERED_ERROR",
    ],
    "logcat.log": [
        "colon-path", "signature", "0x80000406 AEE_EUNABLETOLOAD", "not-accessible",
        "14001 QNN_DEVICE_ERROR_INVALID_CONFIG", "net-run-registration",
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", TITLES)
def test_the_known_lines_of_a_log(name: str) -> None:
    assert [entry.what.title for entry in explain.explain_log(LOGS / name).entries] == TITLES[name]


def test_lines_numbers_and_sentences_of_a_log() -> None:
    entries = explain.explain_log(LOGS / "executorch.log").entries
    assert [entry.line for entry in entries] == [3, 4, 6, 8, 11, 11, 13]
    assert entries[3].again == (9, 10)
    registration = "ExecuTorch could not register /data/local/tmp/x/libQnnToy.so (4005) and continues without it"
    assert entries[4].what.meaning == registration
    first, *_ = explain.explain_log(LOGS / "executorch_pc.log").entries
    leaves = "ExecuTorch leaves a node of demo.leaky.default to other kernels: it has 1 of the operator's 2 arguments"
    assert first.what.meaning == leaves
    harmless = [entry.what.harmless for entry in explain.explain_log(LOGS / "onnxruntime.log").entries]
    assert harmless.count(True) == 1


def test_a_check_of_versions_that_only_one_release_passes(tmp_path: Path) -> None:
    """Seen for every API version but 2.36.0 and 5.47.0 in 2.47, and for every one that was tried in 2.51."""
    log = tmp_path / "x.log"
    log.write_text(
        "  0.0ms [WARNING] <W> op package registration API version check failed. shared object Toy may have "
        "incompatible QNN API and/or QNN HTP API\n"
    )
    [found] = explain.explain_log(log).entries
    assert found.what.harmless and "one library fits all" in found.what.meaning


def test_error_texts_are_those_of_the_runtimes_own_table(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text(
        "  0.0ms [ERROR] Failed matching a kernel for 'Toy::Op' op!\n"
        "Input tensor[0]:: element type: Float32, layout: Flat4\nOutput tensor[0]:: element type: Float32\n"
    )
    [found] = explain.explain_log(log).entries
    refused = "the op was refused: none of its kernels accepts inputs (Float32 Flat4) and outputs (Float32)"
    assert found.what.meaning == refused


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_a_log_in_any_encoding_with_colours_and_carriage_returns(tmp_path: Path, encoding: str) -> None:
    text = "first\r\n\x1b[31mError code: 4007\x1b[0m\r\nlast\r\n"
    mark = "" if encoding == "utf-8" else "\ufeff"
    (tmp_path / "x.log").write_bytes((mark + text).encode(encoding))
    [found] = explain.explain_log(tmp_path / "x.log").entries
    assert (found.line, found.text) == (2, "Error code: 4007")


def test_lines_without_end_do_not_fill_the_memory_and_do_not_shift_numbers(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(b"x" * 1_000_000 + b"\nerror=4006\n")
    explained = explain.explain_log(tmp_path / "x.log")
    assert (explained.entries[0].line, explained.lines) == (2, 2)


def test_a_log_with_nothing_known(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("all is well\nport 4005 open\n")
    with pytest.raises(UsageError, match=r"(?m)x\.log: none of its 2 lines is known to udogen$") as caught:
        explain.explain_log(tmp_path / "x.log")
    assert caught.value.hint.startswith("log more: --log_level verbose (qnn-net-run)")


def test_what_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(range(256)) * 10)
    with pytest.raises(UsageError, match=r"(?m)x\.bin is not a log but binary data$"):
        explain.explain_log(tmp_path / "x.bin")
    with pytest.raises(UsageError, match=r"(?m)is a folder$"):
        explain.explain_log(tmp_path)


# --- the command ------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path) -> None:
    done = udogen("explain", "3110", "-2147482618")
    assert done.returncode == 0
    assert done.stdout.startswith("3110: QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE (QNN 3110)\n")
    assert "(onnxruntime/onnxruntime-qnn #593)" in done.stdout
    done = udogen("explain", LOGS / "logcat.log")
    assert done.stdout.count("takes the whole list") <= 2  # printed once
    assert "see the causes above" in done.stdout
    done = udogen("explain", "--json", "0x80000406", LOGS / "snpe.log")
    reply = json.loads(done.stdout)
    assert reply["errors"][0]["readings"][0]["causes"][0]["source"] == "qualcomm/fastrpc #379"
    assert [each["line"] for each in reply["errors"][1]["found"]] == [1, 2]
    done = udogen("explain", "QNN_GRAPH_ERROR_INVALID_TENSR", "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]["kind"]) == (2, "usage")
    assert udogen("explain").returncode == 2


# --- the tables -------------------------------------------------------------------------------------


LINES = log_lines("qnn", "ort", "executorch")


def every_cause() -> Iterator[ErrorCause]:
    for name in INTERFACES:
        for row in interface(name).codes:
            yield from row.causes
    for line in (*LINES, *log_lines("runtime")):
        yield from line.causes


def test_every_cause_has_a_remedy_and_a_source() -> None:
    thread = re.compile(r"(measured|documented): \S.*|[\w.-]+/[\w.-]+ #\d+(, .*)?")
    for cause in every_cause():
        assert cause.text
        assert cause.remedy
        assert not cause.text.endswith(".")
        assert not cause.remedy.endswith(".")
        assert thread.fullmatch(cause.source), cause


def test_every_table_is_read_and_every_key_known() -> None:
    folder = resources.tables()
    assert {path.stem for path in (folder / "error_codes").iterdir()} == set(INTERFACES)
    assert {path.stem for path in (folder / "log_lines").iterdir()} == {
        *explain.LOG_TABLES,
        "harmless",
        "numbers",
        "runtime",
    }
    keys = {
        "code": {"code", "name", "meaning", "remedy", "aliases", "cause", "offset"},
        "line": {"id", "pattern", "meaning", "cause"},
        "number": {"interface", "pattern"},
    }
    used = set()
    for path in folder.glob("*_*/*.toml"):
        table = tomllib.loads(path.read_text())
        [(kind, rows)] = [(key, value) for key, value in table.items() if isinstance(value, list)]
        for row in rows:
            assert set(row) <= keys[kind], (path, row)
            for cause in row.get("cause", ()):
                assert set(cause) in ({"use"}, {"text", "remedy", "source"}), (path, cause)
                used.add(cause.get("use"))
    assert set(tomllib.loads((folder / "causes.toml").read_text())) == used - {None}, "shared causes are used"


def test_no_number_and_no_name_twice() -> None:
    for rows in (interface(name).codes for name in INTERFACES):
        names = [name for row in rows for name in (row.name, *row.aliases)]
        assert len({(row.code, row.offset) for row in rows}) == len(rows)
        assert len(set(names)) == len(names)
        assert not [row for row in rows if not row.meaning or row.meaning.endswith(".") or row.remedy.endswith(".")]


def test_every_row_has_a_meaning_and_every_interface_a_source() -> None:
    for code in range(17000):
        for reading in explain.meanings_of(code):
            assert reading.meaning
            assert not reading.meaning.endswith(".")
            assert reading.interface in INTERFACES
    assert all(interface(name).title and interface(name).source for name in INTERFACES)


def test_lines_have_names_of_their_own_and_fill_their_sentences() -> None:
    names = [row.id for row in (*LINES, *log_lines("harmless", "runtime"))]
    assert len(set(names)) == len(names)
    for row in LINES:
        assert set(re.findall(r"\{(\w+)\}", row.meaning)) <= set(row.pattern.groupindex), row.id
    derived = {"subject", "mebibytes", "inputs", "outputs"}
    for row in log_lines("runtime"):
        assert set(re.findall(r"\{(\w+)\}", row.meaning)) <= {*row.pattern.groupindex, *derived}, row.id
    for number in printed_numbers():
        assert number.interface in INTERFACES and "code" in number.pattern.groupindex
