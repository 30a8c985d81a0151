"""Cache files of Kernel Tuner's as landscapes."""

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
def test_a_cache_file_becomes_a_landscape_that_can_be_replayed(pack, tmp_path, capsys):
    file = tmp_path / "cache.json"
    file.write_bytes(pack(json.dumps(CACHE).encode()))
    convert.main([str(file), str(tmp_path / "gpu" / "conv.npz")])
    assert "3 configurations, 33% failed" in capsys.readouterr().out
    landscape = load(tmp_path / "gpu" / "conv.npz")
    assert (landscape.name, landscape.about["device"]) == ("conv", "a GPU")
    assert landscape.values == {"x": [16, 32], "y": [1, 2]}  # what no row has, and what is always the same, is no choice
    found = [landscape.look_up(number) for number in landscape.numbers(np.array([[0, 0], [1, 0], [1, 1]]))]
    assert found[0] == (3.5, 0)
    assert np.isnan(found[1][0])
    assert found[1][1] != 0
    assert found[2] == (2.5, 0)
    assert len(replay.task(landscape, blind=True).config_space) == 4


@pytest.mark.parametrize(
    "content", ["{}", '{"cache": {', "[]", json.dumps({**CACHE, "tune_params": {}}), json.dumps({**CACHE, "cache": []})]
)
def test_what_is_no_cache_file_is_refused_with_its_name(content, tmp_path):
    file = tmp_path / "cache.json"
    file.write_text(content)
    with pytest.raises(SystemExit, match=r"cache\.json is no finished cache file"):
        convert.main([str(file), str(tmp_path / "out.npz")])
    assert not (tmp_path / "out.npz").exists()
