"""Journals survive torn lines and full disks."""

import json

import pytest

from autotvm_opevo.topology import Categorical, Discrete, Factorization, InducedSubgraph
from autotvm_opevo.topology.serialization import from_json
from autotvm_opevo.tuning.journal import Journal, read


def test_overwriting_deletes_an_earlier_journal(tmp_path):
    Journal(tmp_path / "journal").write(task="dense")
    Journal(tmp_path / "journal")
    assert (tmp_path / "journal").exists()
    Journal(tmp_path / "journal", overwrite=True)
    assert not (tmp_path / "journal").exists()


def test_a_torn_line_does_not_corrupt_the_next_one(tmp_path):
    path = tmp_path / "journal"
    path.write_text('{"task": "den')
    Journal(path).write(task="conv2d")
    assert [entry.task for entry in read(path)] == ["conv2d"]


def test_a_write_error_is_logged_once(tmp_path, caplog):
    journal = Journal(tmp_path / "no folder" / "journal")
    for _ in range(3):
        journal.write(task="dense")
    assert caplog.text.count("cannot write") == 1


@pytest.mark.parametrize(
    "entry",
    [{"yardstick": -1}, {"yardstick": "x"}, {"network": {"phases": {"running": "?"}}}, {"network": {"limits": {"a": -1}}}]
    + [{"confirmed": {"record": "", "latency": 1.0, "latencies": latencies}} for latencies in ([], [0], [float("nan")], ["x"])]
    + [{"network": {"knobs": knobs}} for knobs in (["a"], {"a": ["b"]}, {"a": {"b": 3}})]
    + [{"network": {"learned_from": learned}} for learned in (["a"], {"a": ["b"]}, {"a": {"b": "many"}})],
)
def test_nonsense_is_skipped(tmp_path, entry):
    (tmp_path / "journal").write_text(json.dumps({"time": 1.0, **entry}) + "\n")
    assert not list(read(tmp_path / "journal"))


def test_knobs_are_read_as_they_were_written(tmp_path):
    knobs = {"tile": Factorization(12, 2), "unroll": Discrete([0, 16]), "vectorize": Categorical(["true", "false"])}
    Journal(tmp_path / "journal").write_knobs({"dense": knobs})
    (entry,) = read(tmp_path / "journal")
    assert repr({name: from_json(*knob) for name, knob in entry.network["knobs"]["dense"].items()}) == repr(knobs)


def test_of_a_large_part_of_a_graph_the_whole_graph_is_written(tmp_path):
    whole = Factorization(2**20, 3)
    small, large = ([tile for tile in whole if tile[2] <= limit] for limit in (2, 2**18))
    knobs = {"small": InducedSubgraph(whole, small), "large": InducedSubgraph(whole, large)}
    Journal(tmp_path / "journal").write_knobs({"dense": knobs})
    (entry,) = read(tmp_path / "journal")
    found = entry.network["knobs"]["dense"]
    assert list(from_json(*found["small"])) == small
    assert repr(from_json(*found["large"])) == repr(whole)
