"""The tutorials for MetaSchedule, run in this process."""

import pytest
from onnx_files import save_onnx
from tutorial_scripts import outline, recorded_output, run_here

from tests.helpers.local_rpc import local_rpc

# A busy machine takes several times as long.
pytestmark = [pytest.mark.timeout(1800), pytest.mark.usefixtures("two_rounds")]


def test_tune_your_model_prints_what_its_page_says_and_leaves_a_library(
    tmp_path, monkeypatch, capsys
):
    run_here(monkeypatch, "tune_your_model.py", "--trials", 5, "--out", tmp_path)
    assert outline(capsys.readouterr().out.splitlines()) == outline(
        recorded_output("tune_your_model.py")
    )
    assert (tmp_path / "model.so").read_bytes().startswith(b"\x7fELF")


@pytest.mark.soak
def test_tune_your_model_takes_a_model_of_the_users(tmp_path, monkeypatch, capsys):
    save_onnx(tmp_path / "mine.onnx")
    options = ["--model", tmp_path / "mine.onnx", "--out", tmp_path]
    run_here(monkeypatch, "tune_your_model.py", *options, "--trials", 2)
    *_, last = capsys.readouterr().out.splitlines()
    assert last == f"{tmp_path / 'model.so'} computes what the untuned network does"


def test_without_a_board_tune_for_a_board_builds_for_arm(tmp_path, monkeypatch, capsys):
    run_here(monkeypatch, "tune_for_a_board.py", "--out", tmp_path)
    assert capsys.readouterr().out.splitlines() == recorded_output("tune_for_a_board.py")


def test_tune_for_a_board_tunes_on_a_server_and_runs_the_network_there(
    tmp_path, monkeypatch, capsys
):
    with local_rpc() as rpc:
        tracker = ["--tracker", f"{rpc.tracker_host}:{rpc.tracker_port}", "--key", rpc.tracker_key]
        target = ["--target", "llvm -mcpu=core-avx2 -num-cores=2"]
        run_here(
            monkeypatch, "tune_for_a_board.py", *tracker, *target, "--trials", 4, "--out", tmp_path
        )
    printed = capsys.readouterr().out
    assert "4 trials, 4 of them now" in printed
    assert "lib0.o: x86-64" in printed
    assert printed.splitlines()[-1].startswith("on the board: class ")
