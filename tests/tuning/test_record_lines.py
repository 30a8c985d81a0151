"""Lines of AutoTVM's logs: targets of other TVMs, and records that share a line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotvm_opevo.tuning.record_lines import option_names, split_line, without_options


class TestTargets:
    @pytest.mark.parametrize(
        ("recorded", "kept"),
        [
            ("llvm -keys=cpu -link-params=0 -mcpu=core-avx2", "llvm -keys=cpu -mcpu=core-avx2"),
            ("llvm -keys=cpu -link-params=0", "llvm -keys=cpu"),
            ("llvm --system-lib --runtime=c -mattr=+avx,-sse", "llvm -mattr=+avx,-sse"),
            ("llvm -system-lib 1 -mcpu=skylake", "llvm -mcpu=skylake"),
            (
                "c -keys=cpu --executor=aot -interface-api=c -unpacked-api=1 -march=armv7e-m",
                "c -keys=cpu -march=armv7e-m",
            ),
            ("c -workspace-byte-alignment=8 -constants-byte-alignment=16", "c"),
            (
                "llvm -device=arm_cpu -target=aarch64-linux-gnu",
                "llvm -device=arm_cpu -mtriple=aarch64-linux-gnu",
            ),
            (
                "cuda -keys=cuda,gpu -max_num_threads=1024 -model=t4",
                "cuda -keys=cuda,gpu -max_num_threads=1024 -model=t4",
            ),
            ("llvm -model=runtime -mcpu=link-params", "llvm -model=runtime -mcpu=link-params"),
            ("llvm", "llvm"),
        ],
    )
    def test_options_that_change_no_schedule_are_dropped(self, recorded, kept):
        assert without_options(recorded) == kept

    def test_names_are_found_however_the_options_are_written(self):
        assert option_names("llvm -a=1 --b=-2 -c 3 -d --e_f=x=y") == {"a", "b", "c", "d", "e_f"}


RECORDS = [
    json.dumps(
        {"input": ["llvm", text, [["TENSOR", [1], "float32"]], {}], "result": [[1.0], 0, 1, 1]}
    )
    for text in "ab"
]
ONE, OTHER = RECORDS


class TestJoinedLines:
    @pytest.mark.parametrize(
        ("line", "parts"),
        [
            (ONE, [ONE]),
            (ONE + OTHER, [ONE, OTHER]),
            (f"{ONE} {OTHER}\r\n", [ONE, OTHER]),
            (f"{ONE}\r{OTHER}", [ONE, OTHER]),
            (f"\ufeff{ONE}\n", [ONE]),
            (f"[{ONE}, {OTHER}]", ["[", ONE, ",", OTHER, "]"]),
            (ONE[:20] + OTHER, [ONE[:20], OTHER]),
            (ONE + OTHER[:20], [ONE, OTHER[:20]]),
            (f"{ONE}\0\0", [ONE, "\0\0"]),
            (f"{ONE} # the best", [ONE, "# the best"]),
            (f"killed {ONE}", ["killed", ONE]),
            ("  ", []),
            ("1 2", ["1", "2"]),
        ],
    )
    def test_records_that_share_a_line_are_taken_apart(self, line, parts):
        assert split_line(line) == parts

    def test_keys_in_another_order_are_no_obstacle(self):
        line = json.dumps(dict(sorted(json.loads(ONE).items(), reverse=True)))
        assert split_line(line + line) == [line, line]

    @given(st.text())
    def test_nothing_but_blanks_is_lost(self, line):
        assert "".join("".join(split_line(line)).split()) == "".join(line.lstrip("\ufeff").split())

    @pytest.mark.parametrize("line", ["1 " * 100_000, "[" * 100_000, '{"input"' * 50_000])
    def test_long_garbage_takes_no_long_time(self, line):
        assert "".join(split_line(line)) == line.replace(" ", "")
