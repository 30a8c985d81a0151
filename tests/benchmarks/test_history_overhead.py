"""What a history costs, measured on a small one."""

import pytest

from benchmarks import history_overhead


@pytest.mark.parametrize("loader", history_overhead.LOADERS)
def test_a_small_history_is_read_and_used(tmp_path, monkeypatch, loader):
    monkeypatch.setattr(history_overhead, "TASKS", 3)
    monkeypatch.setattr(history_overhead, "TRIALS", 8)
    history_overhead.write_log(tmp_path / "log.json", 30)
    assert len((tmp_path / "log.json").read_text().splitlines()) == 30
    loaded, milliseconds, _ = history_overhead.measure(tmp_path / "log.json", loader)
    assert loaded > 0
    assert milliseconds > 0
