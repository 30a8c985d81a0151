"""The ``report`` command."""

import os
import re
import subprocess
import sys
import time

import pytest
from synthetic_logs import autotvm_log, meta_schedule_folder

from autotvm_opevo._utils import timeouts
from autotvm_opevo.cli.main import main
from autotvm_opevo.reporting import page, summary


def test_the_command_writes_a_page(tmp_path, capsys):
    out = tmp_path / "report.html"
    assert main(["report", str(autotvm_log(tmp_path / "log.json", trials=4)), "-o", str(out)]) == 0
    assert capsys.readouterr().out == f"report: {out}\n"
    assert out.read_text().count("<section") == 2


def test_a_name_that_the_output_cannot_show_is_escaped(tmp_path):
    log, out = autotvm_log(tmp_path / "log.json", trials=4), tmp_path / "größe.html"
    done = subprocess.run(
        [sys.executable, "-m", "autotvm_opevo", "report", log, "-o", out],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        stdout=subprocess.PIPE,
    )
    assert done.returncode == 0
    assert done.stdout == f"report: {out}\n".encode("ascii", "backslashreplace")


def test_a_title_may_have_bytes_that_are_no_text(tmp_path):
    log, out = autotvm_log(tmp_path / "log.json", trials=4), tmp_path / "report.html"
    title = os.fsdecode(b"caf\xe9")
    assert main(["report", str(log), "-o", str(out), "--title", title]) == 0
    assert "<h1>caf\ufffd</h1>" in out.read_text()


def test_without_a_file_to_write_the_verdict_is_printed(tmp_path, capsys):
    first, second = (
        str(autotvm_log(tmp_path / f"{name}.json", trials=40)) for name in ("first", "second")
    )
    assert main(["report", first, second]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "first.json and second.json can be compared: the same took 1.00 times as long"
    )
    assert [line.partition(":")[0] for line in lines if "80 trials of 2 tasks" in line] == [
        "first.json",
        "second.json",
    ]
    assert (
        sum(line.startswith("Converged? ") for line in lines)
        == sum(line.startswith("What next? ") for line in lines)
        == 2
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.json", "second.json"]


def test_the_verdict_of_a_database_is_printed_with_warnings(tmp_path, capsys):
    folder = meta_schedule_folder(tmp_path / "database")
    with open(folder / "database_tuning_record.json", "a") as file:
        file.write("torn\n")
    assert main(["report", str(folder)]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("database: ")
    warnings = [line for line in rest if line.startswith("warning: ")]
    assert "warning: 1 malformed line skipped" in warnings
    assert rest[len(warnings)].startswith("Converged? ")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["LOG", "--title", "Night"], 2, "--title requires -o FILE"),
        (["missing.json", "-o", "OUT"], 1, "missing.json: No such file or directory"),
        (
            ["LOG", "-o", "no/folder/OUT"],
            1,
            "out must be in an existing folder, no/folder does not exist",
        ),
        (
            ["LOG", "-o", "LOG"],
            2,
            "out must not be one of the logs, which are never modified; LOG given",
        ),
        (["LOG", "-o", "."], 2, "out must be a regular file, . is a folder"),
    ],
)
def test_errors_are_one_line(tmp_path, monkeypatch, capsys, arguments, status, message):
    monkeypatch.chdir(tmp_path)
    autotvm_log(tmp_path / "LOG", trials=4)
    assert main(["report", *arguments]) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("autotvm_opevo: ")
    assert message in line
    assert not (tmp_path / "OUT").exists()


@pytest.mark.parametrize(
    ("options", "module", "function", "what"),
    [
        ([], summary, "summarize", "reading the logs"),
        (["-o", "report.html"], page, "report", "drawing the page"),
    ],
)
def test_what_takes_long_says_so(monkeypatch, capsys, options, module, function, what):
    text = ""

    def work(*_, **__):
        nonlocal text
        end = time.monotonic() + 60
        while "\n" not in text and time.monotonic() < end:
            text += capsys.readouterr().err
        return "done"

    monkeypatch.setattr(timeouts, "SILENT", 0.01)
    monkeypatch.setattr(module, function, work)
    assert main(["report", "log.json", *options]) == 0
    assert re.match(rf"{what}: \d+ s so far", text)
