"""The comparison with and without results of other devices, on small landscapes."""

from pathlib import Path

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
        milliseconds = (
            (1 + number) * (1 + abs(indices - [3, 7, 1]) @ [0.4, 0.1, 0.5]) * np.exp(noise)
        )
        milliseconds[indices[:, 0] == 5] = np.nan
        landscape = Landscape(f"kernel_{device}", values, indices, milliseconds, np.zeros(144))
        (tmp_path / f"kernel_{device}.npz").write_bytes(dump(landscape))
    return tmp_path


@pytest.mark.parametrize(("sources", "pairs"), [("each", 6), ("all", 3)])
def test_other_devices_help_from_the_first_batch_on(folder, capsys, monkeypatch, sources, pairs):
    monkeypatch.setattr(transfer, "SOURCE_TRIALS", 40)
    transfer.main(
        [str(folder), "--sources", sources, "--seeds", "3", "--trials", "8", "--workers", "1"]
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{pairs} pairs, 3 seeds"
    trials, alone, with_transfer, *_ = lines[4].split(" | ")
    assert trials == "| 8"
    assert float(alone) < 0.9 < float(with_transfer)
    others = "kernel_A" if sources == "each" else "2 others"
    assert sum("-> kernel_" in line for line in lines) == pairs
    assert any(line.startswith(f"| {others} -> kernel_B") for line in lines)


def test_misleading_sources_have_other_fitnesses_and_the_same_failures():
    fitness = np.array([0.0, 1.0, 2.0, 4.0] * 4)
    found = transfer.MISLEAD["inverted"](fitness)
    assert list(found) != list(fitness)
    assert sum(found == 0) == 4


def test_tasks_are_paired_across_folders():
    files = [Path("a/conv-8.npz"), Path("a/gemm-8.npz"), Path("b/conv-4.npz"), Path("b/gemm-4.npz")]
    found = {
        (target.stem, *(other.stem for other in others))
        for target, others in transfer.pairs(files, "each")
    }
    assert found == {
        ("conv-8", "conv-4"),
        ("conv-4", "conv-8"),
        ("gemm-8", "gemm-4"),
        ("gemm-4", "gemm-8"),
    }


def test_unrelated_sources_are_the_tasks_of_other_kernels():
    files = [Path(f"{name}.npz") for name in ("gemm_A", "gemm_B", "conv-8x3")]
    assert list(transfer.pairs(files, "unrelated")) == [
        (files[2], tuple(files[:2])),
        *((file, (files[2],)) for file in files[:2]),
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "no landscapes"),
        ("kernel_A.npz", "needs three landscapes of the same kernel (two with --sources each)"),
    ],
)
def test_landscapes_without_pairs_are_refused(folder, tmp_path, capsys, name, message):
    (tmp_path / "one").mkdir()
    if name:
        (folder / name).rename(tmp_path / "one" / name)
    with pytest.raises(SystemExit):
        transfer.main([str(tmp_path / "one")])
    assert message in capsys.readouterr().err
