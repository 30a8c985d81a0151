"""The comparison with and without results of other devices, on small landscapes."""

import numpy as np
import pytest

from benchmarks import transfer
from benchmarks.landscape import Landscape, dump


@pytest.fixture
def folder(tmp_path):
    """Three devices, alike up to their speed and noise."""
    values = {"x": [1, 2, 4, 8, 16, 32], "y": list(range(12)), "z": [0, 1]}
    indices = np.array(list(np.ndindex(6, 12, 2)))
    for number, device in enumerate("ABC"):
        noise = np.random.default_rng(number).normal(scale=0.02, size=len(indices))
        milliseconds = (1 + number) * (1 + abs(indices - [3, 7, 1]) @ [0.4, 0.1, 0.5]) * np.exp(noise)
        milliseconds[indices[:, 0] == 5] = np.nan
        landscape = Landscape(f"kernel_{device}", values, dict.fromkeys(values, "ordinal"), indices, milliseconds, np.zeros(144))
        (tmp_path / f"kernel_{device}.npz").write_bytes(dump(landscape))
    return tmp_path


@pytest.mark.parametrize(("sources", "pairs"), [("each", 6), ("all", 3)])
def test_other_devices_help_from_the_first_batch_on(folder, capsys, monkeypatch, sources, pairs):
    monkeypatch.setattr(transfer, "SOURCE_TRIALS", 40)
    transfer.main([str(folder), "--sources", sources, "--seeds", "3", "--trials", "32", "--workers", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{pairs} pairs, 3 seeds"
    trials, alone, with_transfer, *_ = lines[2].split()
    assert trials == "8"
    assert float(alone) < 0.9 < float(with_transfer)
    assert sum("-> kernel_" in line for line in lines) == pairs


@pytest.mark.parametrize("mislead", ["shuffled", "inverted"])
def test_misleading_sources_have_other_fitnesses_and_the_same_failures(mislead):
    fitness = np.array([0.0, 1.0, 2.0, 4.0] * 4)
    found = transfer.MISLEAD[mislead](fitness, np.random.default_rng(1))
    assert list(found) != list(fitness)
    assert sum(found == 0) == 4


def test_a_folder_without_pairs_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        transfer.main([str(tmp_path)])
    assert "has no two landscapes of the same kernel" in capsys.readouterr().err
