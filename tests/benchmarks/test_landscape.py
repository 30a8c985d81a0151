"""Landscapes are kept whole in their files."""

import json

import numpy as np
import pytest
from tiny_landscape import landscape

from benchmarks.landscape import dump, load


def test_a_file_holds_all_of_it(tmp_path):
    whole, path = landscape(), tmp_path / "tiny.npz"
    path.write_bytes(dump(whole))
    read = load(path)
    assert (read.name, read.values, read.kinds, read.about) == (whole.name, whole.values, whole.kinds, whole.about)
    np.testing.assert_array_equal(read.positions, whole.positions)
    np.testing.assert_array_equal(read.time, whole.time)
    np.testing.assert_array_equal(read.error, whole.error)


def test_every_row_is_looked_up_and_what_is_missing_could_not_be_made():
    whole = landscape()
    for row, (i, j, k) in enumerate(whole.positions):
        milliseconds, error = whole.look_up(i + 4 * j + 12 * k)
        assert milliseconds == whole.time[row] or (np.isnan(milliseconds) and error > 0)
        assert error == whole.error[row]
    missing = [number for number in range(whole.size) if number not in whole]
    assert missing == [3, 10, 17]
    assert all(np.isnan(whole.look_up(number)[0]) and whole.look_up(number)[1] == 1 for number in missing)


def test_without_error_numbers_what_failed_did_so_on_the_device(tmp_path):
    whole, path = landscape(), tmp_path / "tiny.npz"
    meta = {"knobs": list(whole.values), "values": list(whole.values.values()), "kinds": list(whole.kinds.values())}
    np.savez(path, idx=whole.positions, time=whole.time, meta=json.dumps(meta))
    read = load(path)
    assert read.name == "tiny"
    assert set(read.error[np.isnan(read.time)]) == {4}
    assert not read.error[~np.isnan(read.time)].any()


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 torn"])
def test_what_is_no_landscape_is_refused(tmp_path, content):
    (tmp_path / "broken.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"broken\.npz is no landscape"):
        load(tmp_path / "broken.npz")
