"""Tasks and their trials."""

from synthetic_logs import autotvm_line

from autotvm_opevo.reporting.logs import open_logs


def test_a_configuration_counts_by_the_fastest_of_its_trials(tmp_path):
    path = tmp_path / "log.json"
    path.write_text("\n".join(autotvm_line(i, latency=ms * 1e-3) for i, ms in enumerate([3, 1, 2])))
    (task,) = open_logs([path])[0].tasks.values()
    assert list(task.measured.values()) == [1e-3]


def test_values_with_equal_hashes_are_different_configurations(tmp_path):
    path = tmp_path / "log.json"
    path.write_text("\n".join(autotvm_line(0, unroll=unroll) for unroll in (-1, -2)))
    (task,) = open_logs([path])[0].tasks.values()
    assert len(task.measured) == 2
