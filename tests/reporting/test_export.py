"""The files that a report consists of."""

import pytest
from synthetic_logs import autotvm_log, meta_schedule_folder

from autotvm_opevo import report


def test_fifty_logs(tmp_path):
    logs = [autotvm_log(tmp_path / f"{i}.json", trials=2) for i in range(50)]
    assert report(*logs, out=tmp_path / "report.html").exists()


def test_plots_and_tables_are_saved(tmp_path):
    logs = [autotvm_log(tmp_path / "log.json"), meta_schedule_folder(tmp_path / "folder")]
    report(*logs, out=tmp_path / "report.html", png=tmp_path / "png", csv=tmp_path / "csv")
    found = {str(path.relative_to(tmp_path / "png")) for path in (tmp_path / "png").rglob("*.png")}
    assert {"03 trials per minute.png", "04 latency of each operator.png"} <= found
    assert {"01 dense 1x64/01 best so far over trials.png", "01 dense 1x64/03 tile_x.png"} <= found
    assert "03 matmul 8x64 64x64/02 matmul loop 2 64 iterations.png" in found
    rows = (tmp_path / "csv" / "trials.csv").read_text().splitlines()
    assert rows[0] == "log,task,trial,time,latency_ms,best_so_far_ms"
    assert len(rows) == 1 + 64 + 8
    assert "log.json,dense 1x64,1,1795000000.0,64.0,64.0" in rows
    assert (
        'folder,matmul 8x64 64x64,"matmul, loop 2, 64 iterations",32x2,1,2.0'
        in (tmp_path / "csv" / "knobs.csv").read_text()
    )


@pytest.mark.parametrize("option", ["png", "csv"])
def test_plots_and_tables_need_a_folder(tmp_path, option):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=f"{option} must be a folder"):
        report(
            autotvm_log(tmp_path / "log.json"),
            out=tmp_path / "report.html",
            **{option: tmp_path / "file"},
        )
    assert not (tmp_path / "report.html").exists()
