"""AutoTVM logs: parsing, malformed lines, files of other kinds, writing, and the lock."""

import gzip
import json
import os
import pickle
import resource
import signal
from base64 import b64encode
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from instant_measuring import measured, result
from small_templates import matmul_task
from tvm import autotvm

from autotvm_opevo._utils.atomic_files import LogInUse
from autotvm_opevo.autotvm.log import failure, parse, read_fields
from autotvm_opevo.autotvm.store import TrialStore

TASK = matmul_task()


def lines(indices, seconds=1e-3):
    pairs = [(measured(TASK, TASK.config_space.get(i)), result(seconds)) for i in indices]
    return [autotvm.record.encode(*pair) for pair in pairs]


def write(path, rows):
    path.write_bytes("".join(row + "\n" for row in rows).encode())


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


GOOD = lines([0])[0]
MALFORMED = {
    "torn": GOOD[: len(GOOD) // 2],
    "empty": "",
    "JSON of something else": '{"i": [1, 2]}',
    "a time that is a string": json.dumps({**json.loads(GOOD), "result": [["fast"], 0, 1.0, 2.0]}),
    "a time that is NaN": json.dumps({**json.loads(GOOD), "result": [[float("nan")], 0, 1.0, 2.0]}),
    "a time of zero": json.dumps({**json.loads(GOOD), "result": [[0.0], 0, 1.0, 2.0]}),
    "a negative time": json.dumps({**json.loads(GOOD), "result": [[1.0, -1.0], 0, 1.0, 2.0]}),
    "no costs": json.dumps({**json.loads(GOOD), "result": [[], 0, 1.0, 2.0]}),
    "an unknown error": json.dumps({**json.loads(GOOD), "result": [[1.0], 99, 1.0, 2.0]}),
    "unhashable arguments": json.dumps(
        {**json.loads(GOOD), "input": ["llvm", "dense", [{"a": 1}], {}]}
    ),
    "pickled": "\t".join(["llvm", *[b64encode(pickle.dumps(Bomb())).decode()] * 3, "0.2", "0.17"]),
    "not UTF-8": b"\xff\xfe".decode(errors="surrogateescape"),
}

# Lines of files that other tools have joined or damaged, how many records of theirs are used, and
# what of them is malformed.
JOINED = {
    "two records": (GOOD + GOOD, 2, []),
    "a comment with the line end of an old Mac": (f"# a\r{GOOD}", 1, []),
    "a truncated record and a whole one": (GOOD[:100] + GOOD, 1, [GOOD[:100]]),
    "a remark": (f"{GOOD} # the best", 1, []),
    "bytes that are no UTF-8": (
        GOOD + b"\xff".decode(errors="surrogateescape"),
        1,
        [b"\xff".decode(errors="surrogateescape")],
    ),
}
NOT_LOGS = {
    "Markdown": '# Notes\n\nTo do:\n- tune\n\n## Later\n\n```json\n{"a": 1}\n```\n',
    "comments": "# by hand\n# nothing yet\n",
    "a comment without a line end": "# by hand",
    "JSON": '{\n  "input": [1, 2],\n  "result": 3\n}\n',
    "JSON lines": '{"input": "cat.png", "label": 3}\n{"input": "dog.png", "label": 4}\n',
    "records of an unknown target": GOOD.replace('"llvm', '"no-such-kind') + "\n",
    "a truncated record in text": "see below\n" + GOOD[:100] + "\n",
    "a pickled log": MALFORMED["pickled"] + "\n",
}
CRASH_REMNANTS = {
    "empty": "",
    "a blank line": "\n",
    "a truncated record": GOOD[:100],
    "a truncated record and its line end": GOOD[:100] + "\n",
    "a few bytes": '{"in',
    "two truncated records": GOOD[:50] + "\n" + GOOD[:100],
    "a truncated record under a comment": "# by hand\n\n" + GOOD[:100],
}


class TestReading:
    @pytest.mark.parametrize("kind", MALFORMED)
    def test_malformed_lines_move_away_and_autotvm_reads_the_rest(
        self, kind, tmp_path, monkeypatch
    ):
        monkeypatch.chdir(tmp_path)
        path, bad = tmp_path / "log.json", MALFORMED[kind].encode(errors="surrogateescape")
        good = [row.encode() for row in lines([0, 1, 2])]
        path.write_bytes(b"\n".join([good[0], bad, *good[1:]]) + b"\n")
        with TrialStore(path) as log:
            assert [pair[0].config.index for pair in log.records] == [0, 1, 2]
            assert log.rejected == 1
        assert path.read_bytes().splitlines() == good
        assert Path(f"{path}.rejected").read_bytes() == bad + b"\n"
        assert len(list(autotvm.record.load_from_file(str(path)))) == 3
        assert autotvm.apply_history_best(str(path)).best_by_targetkey
        assert not Path("exploded").exists()

    @pytest.mark.parametrize("kind", JOINED)
    def test_records_that_share_a_line_get_lines_of_their_own(self, kind, tmp_path):
        path, (line, count, malformed) = tmp_path / "log.json", JOINED[kind]
        path.write_bytes(f"{GOOD}\n{line}\n".encode(errors="surrogateescape"))
        with TrialStore(path) as log:
            assert len(log.records) == 1 + count
            assert log.rejected == len(malformed)
        assert path.read_text().count(GOOD) == 1 + count
        assert len(list(autotvm.record.load_from_file(str(path)))) == 1 + count
        rejected = Path(f"{path}.rejected")
        assert (
            rejected.read_bytes().decode(errors="surrogateescape").splitlines() if malformed else []
        ) == malformed
        assert rejected.exists() == bool(malformed)

    def test_a_commented_record_stays_one(self, tmp_path):
        path = tmp_path / "log.json"
        write(path, [GOOD, f"# {GOOD}", f"#{GOOD}{GOOD}"])
        before = path.read_bytes()
        with TrialStore(path) as log:
            assert len(log.records) == 1
        assert path.read_bytes() == before

    def test_logs_with_the_line_ends_of_windows_stay_as_they_are(self, tmp_path):
        path = tmp_path / "log.json"
        path.write_bytes(b"\r\n".join(row.encode() for row in ["# a", *lines([0, 1, 1])]) + b"\r\n")
        before = path.read_bytes()
        with TrialStore(path) as log:
            assert [pair[0].config.index for pair in log.records] == [0, 1, 1]
        assert path.read_bytes() == before

    @pytest.mark.parametrize(
        ("target", "why"),
        [
            ("llvm -link-params=0 -vector-length=512", "does not know -vector-length in their"),
            ("no-such-kind", "has no target no-such-kind"),
        ],
    )
    def test_records_for_targets_that_tvm_does_not_know_are_left_out_by_name_and_stay(
        self, tmp_path, caplog, target, why
    ):
        path = tmp_path / "log.json"
        write(path, [GOOD.replace('"llvm', f'"{target}', 1), GOOD])
        before = path.read_bytes()
        with TrialStore(path) as log:
            assert len(log.records) == 1
            assert log.rejected == 0
        assert path.read_bytes() == before
        assert "1 record of log.json left out, since TVM" in caplog.text
        assert why in caplog.text

    def test_a_log_of_such_records_only_is_refused_by_the_option_s_name(self, tmp_path):
        path = tmp_path / "log.json"
        write(path, [GOOD.replace('"llvm', '"llvm -vector-length=512', 1)])
        before = path.read_bytes()
        with pytest.raises(
            ValueError,
            match=r"left untouched, has no record that can be used, since .* -vector-length",
        ):
            TrialStore(path).__enter__()
        assert path.read_bytes() == before

    def test_records_of_other_tasks_comments_and_duplicates_stay_in_place(self, tmp_path):
        path, other = tmp_path / "log.json", matmul_task(32)
        unrelated = autotvm.record.encode(measured(other, other.config_space.get(5)), result(None))
        rows = [
            "# made by hand\u2028really",
            "# and on Windows\r",
            *lines([3]),
            unrelated,
            *lines([3, 4]),
            json.dumps({"v": 0.1}),
        ]
        write(path, rows)
        with TrialStore(path) as log:
            assert len(log.records) == 4
            assert log.rejected == 0
        assert path.read_bytes().decode().split("\n") == [*rows, ""]
        assert len(list(autotvm.record.load_from_file(str(path)))) == 4
        assert sorted(os.listdir(tmp_path)) == ["log.json"]

    def test_a_missing_last_line_end_is_added(self, tmp_path):
        path = tmp_path / "log.json"
        path.write_text("\n".join(lines([0, 1])))
        with TrialStore(path) as log:
            log.append(None, log.records[0])
            assert len(log.records) == 2
        assert path.read_text().splitlines() == lines_of(path, 3)

    @pytest.mark.parametrize("kind", NOT_LOGS)
    def test_a_file_without_a_record_is_refused_and_left_untouched(self, kind, tmp_path):
        path = tmp_path / "file"
        path.write_bytes(NOT_LOGS[kind].encode())
        os.utime(path, ns=(10**18, 10**18))
        before = path.stat()
        with (
            pytest.raises(
                ValueError, match=r"must be a new file or .*/file, which was left untouched"
            ),
            TrialStore(path),
        ):
            pass
        assert path.read_bytes() == NOT_LOGS[kind].encode()
        assert os.listdir(tmp_path) == ["file"]
        after = path.stat()
        assert (after.st_mtime_ns, after.st_ino, after.st_mode) == (
            before.st_mtime_ns,
            before.st_ino,
            before.st_mode,
        )

    def test_a_file_of_another_format_is_refused_by_name(self, tmp_path):
        content = gzip.compress(GOOD.encode())
        (tmp_path / "log.json").write_bytes(content)
        is_gzip = "it is compressed with gzip: unpack it with gunzip, or choose another name"
        with pytest.raises(ValueError, match=f"left untouched, has no record, {is_gzip}"):
            TrialStore(tmp_path / "log.json").__enter__()
        assert (tmp_path / "log.json").read_bytes() == content
        assert os.listdir(tmp_path) == ["log.json"]

    @pytest.mark.parametrize("kind", CRASH_REMNANTS)
    def test_what_a_crash_leaves_of_a_log_is_accepted(self, kind, tmp_path):
        path, text = tmp_path / "log.json", CRASH_REMNANTS[kind]
        path.write_text(text)
        malformed = [line for line in text.splitlines() if not line.startswith("#")]
        with TrialStore(path) as log:
            assert (log.records, log.rejected) == ([], len(malformed))
            log.append(None, (measured(TASK, TASK.config_space.get(0)), result(1.0)))
        assert path.read_text().splitlines()[:-1] == [
            line for line in text.splitlines() if line.startswith("#")
        ]
        if malformed:
            assert Path(f"{path}.rejected").read_text().splitlines() == malformed

    def test_mode_and_links_survive_a_repair(self, tmp_path):
        target, link = tmp_path / "real.json", tmp_path / "log.json"
        write(target, ["torn", *lines([0])])
        target.chmod(0o640)
        link.symlink_to(target)
        with TrialStore(link) as log:
            append(log, log.records)
        assert link.is_symlink()
        assert len(lines_of(target, 2)) == 2
        assert target.stat().st_mode & 0o777 == 0o640

    @given(
        st.text()
        | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists).map(
            json.dumps
        )
    )
    def test_any_text_is_parsed_or_raises_value_error(self, text):
        with suppress(ValueError):
            parse(text)

    @given(st.data())
    def test_any_damage_to_a_record_is_detected_or_harmless(self, data):
        """What `parse` accepts, AutoTVM's own reader and apply_history_best accept, too."""
        row = GOOD
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, len(row)))
            row = (
                row[:at]
                + data.draw(st.sampled_from(["", "1", '"', "]", "[", "{", ",", "null", "-"]))
                + row[at + 1 :]
            )
        try:
            found = parse(row)
        except ValueError:
            return
        if found:
            autotvm.apply_history_best([autotvm.record.decode(row)])


def append(log, records):
    for record in records:
        log.append(None, record)


def lines_of(path, n):
    rows = path.read_text().splitlines()
    assert len(rows) == n
    assert all(parse(row) for row in rows)
    return rows


class TestWriting:
    def test_records_are_on_disk_when_append_returns(self, tmp_path):
        with TrialStore(tmp_path / "log.json") as log:
            log.append(None, (measured(TASK, TASK.config_space.get(0)), result(1.0)))
            assert len(lines_of(log.path, 1)) == 1

    def test_an_error_before_the_first_record_leaves_no_file(self, tmp_path):
        with pytest.raises(ZeroDivisionError), TrialStore(tmp_path / "log.json"):
            raise ZeroDivisionError
        assert os.listdir(tmp_path) == []
        (tmp_path / "log.json").touch()
        with pytest.raises(ZeroDivisionError), TrialStore(tmp_path / "log.json"):
            raise ZeroDivisionError
        assert os.listdir(tmp_path) == ["log.json"]  # which was there before

    def test_an_error_after_a_record_leaves_it(self, tmp_path):
        log = TrialStore(tmp_path / "log.json").__enter__()
        log.append(None, (measured(TASK, TASK.config_space.get(0)), result(1.0)))
        log.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
        assert len(lines_of(tmp_path / "log.json", 1)) == 1

    @pytest.mark.parametrize("keep", [0, 1, 2])
    def test_a_full_disk_leaves_complete_lines_and_the_error_says_what_to_do(self, tmp_path, keep):
        """A limit on the file size, in the middle of a line, stands in for a full disk."""
        path, pairs = (
            tmp_path / "log.json",
            [(measured(TASK, TASK.config_space.get(i)), result(1.0)) for i in range(3)],
        )
        write(path, lines([7]))
        length = len(autotvm.record.encode(*pairs[0])) + 1
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with TrialStore(path) as log:
            try:
                resource.setrlimit(
                    resource.RLIMIT_FSIZE,
                    (path.stat().st_size + keep * length + length // 2, limits[1]),
                )
                with pytest.raises(OSError, match=r"cannot write the log: .* make room") as caught:
                    append(log, pairs)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
                signal.signal(signal.SIGXFSZ, before)
            assert caught.value.filename == str(path)
            assert len(lines_of(path, 1 + keep)) == 1 + keep
            append(log, pairs[keep:])
        assert len(lines_of(path, 4)) == 4

    @pytest.mark.parametrize(
        ("path", "error", "message"),
        [
            ("missing/log.json", FileNotFoundError, "must be in an existing folder"),
            (".", ValueError, "is a folder"),
        ],
    )
    def test_folders_and_files_in_missing_folders_are_refused(
        self, tmp_path, path, error, message, monkeypatch
    ):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(error, match=message), TrialStore(path):
            pass
        assert os.listdir(tmp_path) == []


def test_a_log_has_one_writer(tmp_path):
    with (
        TrialStore(tmp_path / "log.json"),
        pytest.raises(LogInUse, match=f"pid {os.getpid()}:"),
        TrialStore(tmp_path / "log.json"),
    ):
        pass
    assert os.listdir(tmp_path) == ["log.json"]


@pytest.mark.parametrize("more", ['{"v": 0.1}', '{"i": [], "r": []}', " oops}"])
def test_a_record_that_shares_its_line_is_read(tmp_path, more):
    (line,) = lines([1])
    write(tmp_path / "log", [line + more])
    assert [text for text, _ in read_fields(tmp_path / "log")] == [line]


def test_a_comment_is_no_record_though_it_is_indented(tmp_path):
    write(tmp_path / "log", [f"  # {lines([1])[0]}"])
    assert not list(read_fields(tmp_path / "log"))


def test_the_kind_of_a_failure_may_be_written_as_a_float():
    assert failure(result(1.0)._replace(error_no=7.0))[0] == "run timeout"
