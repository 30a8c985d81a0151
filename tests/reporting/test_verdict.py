"""The verdict on a log."""

import numpy as np
import pytest
from compared_networks import compared
from report_text import page_text
from synthetic_logs import (
    CONV2D,
    DENSE,
    autotvm_line,
    meta_schedule_folder,
    meta_schedule_line,
    record,
)

from autotvm_opevo import report
from autotvm_opevo.reporting import summarize
from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.reporting.verdict import MIN_TRIALS, verdict
from autotvm_opevo.tuning.result import UNLIMITED
from autotvm_opevo.tuning.run_log import (
    BestConfirmed,
    MachineMeasured,
    MeasuringBegan,
    NetworkCompared,
    OutputsDiffered,
    RunEnded,
    RunStarted,
    TrialEnded,
)

STARTED = RunStarted([(1, [DENSE])], "OpEvo")


def answers(path):
    """The answers of the verdict on a log, by question."""
    (log,) = open_logs([path])
    return verdict(log)


def write(path, latencies, template="dense", error_no=0):
    """Write a log of one task, and append if it exists."""
    with open(path, "a") as file:
        for trial, latency in enumerate(latencies):
            file.write(autotvm_line(trial, template, latency=latency, error_no=error_no) + "\n")
    return path


def test_an_operator_without_a_successful_trial_comes_first(tmp_path):
    log = write(write(tmp_path / "log.json", [1e-3] * 40), [None] * 4, "conv2d", error_no=4)
    found = answers(log)
    assert found["Converged?"] == "No: 1 operator without a successful trial."
    failed = "All trials of conv2d 1x64 failed, most often with runtime device: "
    assert found["What next?"] == f"{failed}the run log of tune_network would say why."
    record(log, TrialEnded(CONV2D, "runtime device", "no such device"))
    assert answers(log)["What next?"] == f"{failed}no such device."
    assert (
        answers(write(tmp_path / "failed.json", [None] * 20, error_no=4))["How good?"]
        == "Unknown: no trial succeeded."
    )


@pytest.mark.parametrize(
    ("bound", "confirmed", "next_step"),
    [
        (0.95e-3, [], "Nothing: use the result."),
        (0.95e-3, [1.02e-3], "Nothing: use the result."),
        (0.95e-3, [1.6e-3], "More trials:"),  # the best was a lucky trial
        (0.5e-3, [], "More trials:"),
    ],
)
def test_a_run_that_still_gains_goes_on_unless_every_operator_is_near_its_limit(
    tmp_path, bound, confirmed, next_step
):
    log = write(tmp_path / "log.json", np.linspace(2e-3, 1e-3, 32).tolist())
    record(log, MachineMeasured({DENSE: bound}))
    if confirmed:
        record(log, BestConfirmed(DENSE, autotvm_line(31, latency=1e-3), confirmed))
    assert answers(log)["Converged?"].startswith("No: the last half of the trials brought ")
    assert answers(log)["What next?"].startswith(next_step)


def test_how_good_it_is_rests_on_confirmed_timings_where_they_are_longer(tmp_path):
    log = write(tmp_path / "log.json", [1e-3] * 20)
    record(log, MachineMeasured({DENSE: 0.8e-3}))
    assert answers(log)["How good?"].startswith("1.000 ms, 80% of what the roofline bounds allow")
    record(log, BestConfirmed(DENSE, autotvm_line(19, latency=1e-3), [1.6e-3]))
    text = answers(log)["How good?"]
    assert text == "1.600 ms, 50% of what the roofline bounds allow."


def test_the_page_shows_the_figures_of_the_verdict(tmp_path):
    log = write(write(tmp_path / "log.json", [1e-3] * 20), [0.5e-3] * 20, "conv2d")
    started = RunStarted([(1, [DENSE]), (1, [CONV2D])], "OpEvo", flop={DENSE: 2e6, CONV2D: 1e6})
    bounds, sizes = {DENSE: 0.8e-3, CONV2D: 0.5e-3}, {DENSE: 4e6, CONV2D: 1e6}
    record(log, started)
    record(log, MachineMeasured(bounds, [DENSE], sizes))
    record(log, BestConfirmed(DENSE, autotvm_line(19, latency=1e-3), [1.6e-3]))
    text = answers(log)["How good?"]
    assert text.startswith(
        "2.100 ms, 1.4 GFLOPS, 62% of what the roofline bounds allow; most is left in dense"
    )
    page = page_text(report(log, out=tmp_path / "report.html"))
    # of latency, ms, GFLOPS, GB/s, of bound, lowest at trial
    assert "dense 1x64 76% 1.600 1.2 2.5 50% (memory) 1" in page


def test_the_run_log_s_limits_say_how_good_it_is_and_where_most_is_left(tmp_path):
    log = write(write(tmp_path / "log.json", [1e-3] * 20), [4e-3] * 20, "conv2d")
    started = RunStarted([(2, [DENSE]), (1, [CONV2D])], "OpEvo", flop={DENSE: 1e6, CONV2D: 8e6})
    record(log, started)
    assert (
        "6.000 ms, 1.7 GFLOPS; how fast this device can be is unknown" in answers(log)["How good?"]
    )
    record(log, MachineMeasured({DENSE: 0.95e-3, CONV2D: 1e-3}))
    text = answers(log)["How good?"]
    most = "most is left in conv2d 1x64, at 25% of its bound"
    assert text == f"6.000 ms, 1.7 GFLOPS, 48% of what the roofline bounds allow; {most}."


def test_limits_that_an_operator_exceeds_by_far_are_not_believed(tmp_path):
    log = write(write(tmp_path / "log.json", [1e-3] * 20), [4e-3] * 20, "conv2d")
    record(log, MachineMeasured({DENSE: 1.2e-3, CONV2D: 2e-3}))
    assert answers(log)["How good?"].startswith(
        "5.000 ms, 60% of what the roofline bounds allow; most is left in conv2d"
    )
    record(log, MachineMeasured({DENSE: 2.6e-3, CONV2D: 2e-3}))
    assert answers(log)["How good?"].startswith("5.000 ms; how fast this device can be is unknown")


def test_operators_that_only_move_data_hide_the_limit_of_the_others_only_if_they_take_long(
    tmp_path,
):
    log = write(write(tmp_path / "log.json", [1e-3] * 20), [2e-5] * 20, "conv2d")
    record(log, MachineMeasured({DENSE: 0.5e-3}))
    known = "0.98 GFLOPS, 51% of what the roofline bounds allow; most is left in dense, at 50%"
    for times, expected in ((1, known), (9, "is unknown")):
        operators, names = [(1, [DENSE]), (times, [CONV2D])], {DENSE: "dense", CONV2D: "transpose"}
        record(log, RunStarted(operators, "OpEvo", flop={DENSE: 1e6}, names=names))
        assert expected in answers(log)["How good?"]


def test_a_network_that_became_slower_as_a_whole_is_not_to_be_used(tmp_path):
    log = write(tmp_path / "log.json", [1 / (trial + 1) for trial in range(32)])
    record(log, STARTED, NetworkCompared.of(compared(0.010, 0.0105).race))
    assert answers(log)["What next?"].startswith("Nothing: the best file has the untuned network")


def test_records_that_change_the_outputs_of_the_network_are_not_to_be_used(tmp_path):
    log = write(tmp_path / "log.json", [2e-3] * 10 + [1e-3] * 100)
    record(log, STARTED, MeasuringBegan(), NetworkCompared(0.01, 0.005), OutputsDiffered())
    assert answers(log)["What next?"].startswith("Do not use the records: outputs of the tuned")
    assert "before tuning" not in summarize(log)
    record(log, NetworkCompared(0.01, 0.005))  # by a later call
    assert answers(log)["What next?"].startswith("Nothing: use the result")


@pytest.mark.parametrize(
    "event", [NetworkCompared.of(compared(0.010, 0.0105).race), OutputsDiffered()]
)
def test_a_comparison_is_of_the_best_until_more_is_measured(tmp_path, event):
    log = write(tmp_path / "log.json", [2e-3] * 10 + [1e-3] * 100)
    record(log, STARTED, event, STARTED)  # the best file still has the untuned one
    assert "the untuned" in answers(log)["What next?"]
    record(log, MeasuringBegan())
    assert answers(log)["What next?"].startswith("Nothing: use the result")
    assert "before tuning" not in summarize(log)


def test_a_converged_run_that_made_the_network_no_faster_does_not_advise_its_result(tmp_path):
    log = write(tmp_path / "log.json", [2e-3] * 10 + [1e-3] * 100)
    record(log, STARTED)
    for after, expected in (
        (0.0101, "Nothing: the network as a whole was no faster"),
        (0.005, "Nothing: use the result"),
    ):
        record(log, NetworkCompared(0.01, after))
        assert answers(log)["What next?"].startswith(expected)


def test_confirmed_tasks_say_how_sure_it_is_until_a_later_trial_is_faster(tmp_path, monkeypatch):
    log = write(write(tmp_path / "log.json", [1e-3] * 20), [3e-3] * 20, "conv2d")
    assert answers(log)["How sure?"].startswith("Every best rests on one trial")
    monkeypatch.setattr("time.time", lambda: 1.795e9 + 30)
    record(log, BestConfirmed(DENSE, "", [1.0e-3, 1.02e-3, 0.98e-3], ties=2))
    text = answers(log)["How sure?"]
    tied = "another configuration may be as fast for dense 1x64"
    expected = "1 of 2 operators, 25% of the latency, re-measured; timings differ by 2.0%"
    assert text == f"{expected}; {tied}."
    with open(log, "a") as file:
        file.write(autotvm_line(40, latency=0.9e-3) + "\n")
    assert answers(log)["How sure?"].startswith("Every best rests on one trial")


def test_runs_that_were_killed_do_not_count_as_timed(tmp_path, monkeypatch):
    log = write(tmp_path / "log.json", [1e-3] * 40)
    for start in (1.795e9 - 10, 1.795e9 + 9.5, 1.795e9 + 19.5):
        monkeypatch.setattr("time.time", lambda start=start: start)
        record(log, STARTED)
    record(log, RunEnded({"building": 14.0, "running": 6.0}))
    text = answers(log)["Where did the time go?"]
    assert text == "building 14 s, running 6.0 s, 48 s in all."


def test_a_database_without_a_run_log_is_judged_by_the_order_of_its_records(tmp_path):
    found = answers(meta_schedule_folder(tmp_path / "database"))
    assert not found["Converged?"].startswith(("Yes", "Probably"))
    assert found["Where did the time go?"].startswith("Unknown")


def test_operators_of_an_earlier_network_that_have_no_trial_do_not_matter(tmp_path):
    log = write(tmp_path / "log.json", [1e-3] * 100)
    for task in (CONV2D, DENSE):
        record(log, RunStarted([(1, [task])], "OpEvo"))
    assert answers(log)["Converged?"].startswith("Probably: ")


def test_where_every_task_has_ended_there_is_nothing_next(tmp_path):
    log = write(tmp_path / "log.json", [1 / (trial + 1) for trial in range(20)])
    record(log, STARTED, RunEnded({"running": 1.0}, "exhausted"))
    found = answers(log)
    assert (
        found["Converged?"]
        == "Yes: every task ended: its search space is exhausted, or it stopped early."
    )
    assert found["What next?"].startswith("Nothing: use the result")
    record(log, STARTED)
    assert not answers(log)["Converged?"].startswith("Yes")


def test_a_run_s_own_log_may_be_named_like_the_best_of_another(tmp_path):
    log = write(tmp_path / "log.best.json", [1e-3] * 20)
    record(log, STARTED)
    assert answers(log)


def test_the_best_of_another_log_have_no_verdict(tmp_path):
    write(tmp_path / "log.json", [2e-3, 1e-3])
    best = write(tmp_path / "log.best.json", [1e-3])
    assert answers(best) == {}
    assert summarize(best).splitlines()[0] == "log.best.json: 1 trial of 1 task"
    assert "this has only the best trial of each task; the log beside it" in summarize(best)
    folder = meta_schedule_folder(meta_schedule_folder(tmp_path / "work") / "best")
    assert "this has only the best trial of each task; the folder around it" in summarize(folder)
    # a folder of that name that is no other's
    assert answers(meta_schedule_folder(tmp_path / "best"))


def test_without_its_start_the_time_begins_with_the_first_result(tmp_path):
    first = write(tmp_path / "log.json", [1e-3] * 20)
    assert "19 s since the first result" in summarize(first)
    record(first, STARTED)
    assert "since the first result" not in summarize(first)
    one = summarize(write(tmp_path / "one.json", [1e-3]))
    assert " 0.0 s" not in one


def test_text_that_cannot_be_shown_is_replaced(tmp_path):
    log = write(tmp_path / "log.json", [1e-3] * 40)
    command = "autotvm-opevo tune --model a\udcff.onnx --log log.json"
    started = RunStarted([(1, [DENSE])], "Op\x1b[31mEvo", command, 40)
    record(log, started, RunEnded({"run\x1bning": 1.0}))
    text = summarize(log)
    assert "\x1b" not in text
    assert text.encode()
    assert "Op\ufffd[31mEvo" in text


def test_failures_of_an_unknown_kind_have_no_kind(tmp_path):
    folder = meta_schedule_folder(tmp_path / "folder")
    records = folder / "database_tuning_record.json"
    records.write_text(
        "\n".join(meta_schedule_line((64, 1), 0, 1e10 if i else 1e-3) for i in range(8)) + "\n"
    )
    assert "7 of 8 trials failed." in summarize(folder)


def test_a_run_that_still_gains_has_not_converged_and_gets_twice_the_trials(tmp_path):
    log = write(tmp_path / "log.json", [1 / (trial + 1) for trial in range(32)])
    found = answers(log)
    assert found["Converged?"] == "No: the last half of the trials brought 100%."
    assert found["What next?"] == "More trials: tune again into this log, 64 in all."
    command = "autotvm-opevo tune --network alexnet --trials 32 --log log.json"
    record(log, RunStarted([(1, [DENSE])], "OpEvo", command, 32))
    assert answers(log)["What next?"].endswith(f"64 in all: {command.replace('32', '64')}")


@pytest.mark.parametrize(
    ("trials", "says", "next_step"),
    [
        (MIN_TRIALS - 1, "Too early to tell: fewer than 64 trials per operator.", "More trials"),
        (MIN_TRIALS, "Probably: the last half of the trials brought 0.0%.", "Nothing"),
    ],
)
def test_a_run_that_stands_still_has_converged_unless_its_trials_are_few(
    tmp_path, trials, says, next_step
):
    found = answers(write(tmp_path / "log.json", [1e-3] * trials))
    assert found["Converged?"] == says
    assert found["What next?"].startswith(next_step)


def test_trials_of_an_operator_that_hardly_matters_do_not_make_a_run_converged(tmp_path):
    log = write(write(tmp_path / "log.json", [1e-2] * 20), [1e-5] * 300, "conv2d")
    assert answers(log)["Converged?"].startswith("Too early to tell")
    even = write(write(tmp_path / "even.json", [1e-2] * 160), [1e-5] * 160, "conv2d")
    assert answers(even)["Converged?"].startswith("Probably: ")


def test_an_operator_that_always_times_out_needs_more_time(tmp_path):
    log = write(write(tmp_path / "log.json", [1e-3] * 40), [None] * 4, "conv2d", error_no=7)
    text = (
        "All trials of conv2d 1x64 failed, most often with run timeout: "
        "give each trial more time (--timeout)."
    )
    assert answers(log)["What next?"] == text


@pytest.mark.parametrize(
    ("budget", "stop_reason", "advice"),
    [
        (1000, "interrupted", "More trials: tune again into this log, 1000 in all"),
        (UNLIMITED, "interrupted", "More time: tune again into this log, for as long"),
        (100_000, "time limit", "More time: tune again into this log, for as long"),
    ],
)
def test_a_run_that_ended_early_is_to_go_on_by_its_own_limit(tmp_path, budget, stop_reason, advice):
    log = write(tmp_path / "log.json", [1 / (trial + 1) for trial in range(32)])
    record(log, RunStarted([(1, [DENSE])], "OpEvo", "a command", budget))
    record(log, RunEnded({"running": 1.0}, stop_reason))
    assert answers(log)["What next?"] == f"{advice}: a command"


def test_operators_without_a_trial_need_trials(tmp_path):
    log = write(tmp_path / "log.json", [1e-3] * 4)
    record(log, RunStarted([(1, [DENSE]), (1, [CONV2D])], "OpEvo", "a command", 1000))
    found = answers(log)
    assert found["Converged?"] == "No: 1 operator without a successful trial."
    assert found["What next?"] == "More trials: tune again into this log, 1000 in all: a command"


@pytest.mark.usefixtures("undrawn")
def test_trials_of_another_network_in_the_log_do_not_count_for_what_is_next(tmp_path):
    log = write(
        write(tmp_path / "log.json", [1 / (trial + 1) for trial in range(32)]),
        [1e-3] * 100,
        "conv2d",
    )
    for task in (CONV2D, DENSE, DENSE):
        record(log, RunStarted([(1, [task])], "OpEvo", "a command", 32))
    assert "64 in all" in answers(log)["What next?"]
    assert (
        "this log has 2 networks or targets: totals and shares are of all of them together"
        in page_text(report(log, out=tmp_path / "report.html"))
    )


def test_at_the_machine_s_limit_tuning_has_converged(tmp_path):
    log = write(tmp_path / "log.json", [1 / (trial + 1) for trial in range(32)])
    record(log, STARTED, MachineMeasured({DENSE: 1 / 32}))
    assert answers(log)["Converged?"] == "Yes: the roofline bounds leave 0.0%."
    assert answers(log)["What next?"].startswith("Nothing")


def test_where_the_time_went_has_the_phases_and_failures_if_they_are_many(tmp_path):
    log = write(write(tmp_path / "log.json", [1e-3] * 40), [None] * 20, "conv2d", error_no=6)
    record(log, RunEnded({"running": 20.0, "building": 40.0}))
    expected = "building 40 s, running 20 s, 20 of 60 trials failed with build timeout."
    assert answers(log)["Where did the time go?"] == expected


def test_the_gain_is_unknown_if_an_operator_had_no_result_before(tmp_path):
    log = tmp_path / "log.json"
    lines = [autotvm_line(i, "dense" if i < 100 else "conv2d") for i in range(200)]
    log.write_text("\n".join(lines))
    late = "Unknown: an operator had its first success in the last half of the trials."
    assert answers(log)["Converged?"] == late
