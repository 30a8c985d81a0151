"""A report of several logs, with hostile names."""

import pytest
from synthetic_logs import CONV2D, DENSE, HOSTILE, autotvm_line, autotvm_log, meta_schedule_folder

from autotvm_opevo import report
from autotvm_opevo.tuning.run_log import NetworkCompared, RunLog, RunStarted, TrialEnded


@pytest.fixture(scope="package")
def page(tmp_path_factory):
    """Logs of two tuners with the same two tasks, one of which has a third, and a MetaSchedule
    database.
    """
    folder = tmp_path_factory.mktemp("report")
    first, second = (
        autotvm_log(folder / "opevo.json"),
        autotvm_log(folder / "xgb.json", latency=0.02),
    )
    run_log = RunLog(f"{first}.journal")
    run_log.write(TrialEnded(DENSE, failure="runtime device", message=f"no {HOSTILE}"))
    run_log.write(RunStarted([(3, [DENSE]), (1, [CONV2D])], "OpEvoTuner"))
    run_log.write(NetworkCompared(0.5, 0.25))
    with open(second, "a") as file:
        file.write(autotvm_line(99, HOSTILE, latency=1e-6) + '\n{"torn')
    return report(
        first,
        second,
        meta_schedule_folder(folder / "folder"),
        out=folder / "report.html",
        title=f"Night {HOSTILE}",
    )


@pytest.fixture
def undrawn(monkeypatch):
    """Pages whose charts are made, but not drawn."""
    monkeypatch.setattr("autotvm_opevo.reporting.page.svg", lambda figure, title: "<svg></svg>")
