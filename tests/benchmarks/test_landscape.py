"""Landscapes and their files."""

import json

import numpy as np
import pytest
from tiny_landscape import landscape

from benchmarks.landscape import dump, load


def test_a_landscape_survives_a_round_trip(tmp_path):
    whole, path = landscape(), tmp_path / "tiny.npz"
    path.write_bytes(dump(whole))
    read = load(path)
    assert (read.name, read.values, read.metadata) == (whole.name, whole.values, whole.metadata)
    np.testing.assert_array_equal(read.knob_indices, whole.knob_indices)
    np.testing.assert_array_equal(read.time, whole.time)
    np.testing.assert_array_equal(read.error, whole.error)


def test_rows_are_looked_up_and_missing_ones_fail_to_instantiate():
    whole = landscape()
    for row, (i, j, k) in enumerate(whole.knob_indices):
        milliseconds, error = whole.look_up(i + 4 * j + 12 * k)
        assert milliseconds == whole.time[row] or (np.isnan(milliseconds) and error > 0)
        assert error == whole.error[row]
    missing = [index for index in range(whole.size) if index not in whole]
    assert missing == [3, 10, 17]
    assert all(
        np.isnan(whole.look_up(index)[0]) and whole.look_up(index)[1] == 1 for index in missing
    )


def test_failures_without_an_error_number_are_device_errors(tmp_path):
    whole, path = landscape(), tmp_path / "tiny.npz"
    meta = {"knobs": list(whole.values), "values": list(whole.values.values())}
    np.savez(path, idx=whole.knob_indices, time=whole.time, meta=json.dumps(meta))
    read = load(path)
    assert read.name == "tiny"
    assert set(read.error[np.isnan(read.time)]) == {4}
    assert not read.error[~np.isnan(read.time)].any()


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 truncated"])
def test_other_files_are_rejected(tmp_path, content):
    (tmp_path / "broken.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"broken\.npz is not a landscape"):
        load(tmp_path / "broken.npz")
