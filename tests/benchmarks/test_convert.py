"""Conversion of Kernel Tuner cache files to landscapes."""

import gzip
import json

import numpy as np
import pytest

from benchmarks import convert, replay
from benchmarks.landscape import load

CACHE = {
    "device_name": "a GPU",
    "kernel_name": "convolution",
    "tune_params_keys": ["x", "y", "always"],
    "tune_params": {"x": [16, 32, 64], "y": [1, 2], "always": [15]},
    "cache": {
        "16,1,15": {"x": 16, "y": 1, "always": 15, "time": 3.5, "times": [3.0, 4.0]},
        "32,1,15": {"x": 32, "y": 1, "always": 15, "time": "CompilationFailedConfig"},
        "32,2,15": {"x": 32, "y": 2, "always": 15, "time": 2.5},
    },
}


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_converted_cache_file_can_be_replayed(pack, tmp_path, capsys):
    file = tmp_path / "cache.json"
    file.write_bytes(pack(json.dumps(CACHE).encode()))
    convert.main([str(file), str(tmp_path / "gpu" / "conv.npz")])
    assert "3 configurations, 33% failed" in capsys.readouterr().out
    landscape = load(tmp_path / "gpu" / "conv.npz")
    assert (landscape.name, landscape.metadata["device"]) == ("conv", "a GPU")
    # without values that never occur, and knobs with one value
    assert landscape.values == {"x": [16, 32], "y": [1, 2]}
    results = [
        landscape.look_up(index)
        for index in landscape.config_indices(np.array([[0, 0], [1, 0], [1, 1]]))
    ]
    assert results[0] == (3.5, 0)
    assert np.isnan(results[1][0])
    assert results[1][1] != 0
    assert results[2] == (2.5, 0)
    assert len(replay.task(landscape, hidden=True).config_space) == 4


@pytest.mark.parametrize(
    "content",
    [
        "{}",
        '{"cache": {',
        "[]",
        json.dumps({**CACHE, "tune_params": {}}),
        json.dumps({**CACHE, "cache": []}),
    ],
)
def test_other_files_are_rejected_with_their_name(content, tmp_path):
    file = tmp_path / "cache.json"
    file.write_text(content)
    with pytest.raises(SystemExit, match=r"cache\.json is not a complete Kernel Tuner cache file"):
        convert.main([str(file), str(tmp_path / "out.npz")])
    assert not (tmp_path / "out.npz").exists()
