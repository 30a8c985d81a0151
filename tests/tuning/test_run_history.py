"""What a journal says of the runs that wrote a log."""

from autotvm_opevo.tuning.journal import Journal, read
from autotvm_opevo.tuning.roofline import Roofline
from autotvm_opevo.tuning.run_history import RunHistory


def test_the_yardstick_and_the_phases_of_all_runs_lost_devices_and_the_lowering_are_read_back(tmp_path):
    journal, history = Journal(tmp_path / "journal"), RunHistory()
    for latency in (0.001, 0.002):
        journal.write(yardstick=latency)
        journal.write_end({"running": 1.5, "building": 2.0, "searching": 0.0})
    journal.write_lost_devices(["10.0.0.7:9090"])
    journal.write_lowering({"nhwc": 5, "packed": 8, "winograd": 2, "fast_math": 1})
    for entry in read(journal.path):
        history.add(entry)
    assert [latency for _, latency in history.yardstick] == [0.001, 0.002]
    assert (history.phases, history.timed) == ({"running": 3.0, "building": 4.0}, 2)
    assert history.lost == ["10.0.0.7:9090"]
    assert history.lowering == {"nhwc": 5, "packed": 8, "winograd": 2, "fast_math": 1}


def test_what_a_run_was_asked_for_and_its_limits_are_read_back(tmp_path):
    journal, history = Journal(tmp_path / "journal"), RunHistory()
    journal.write_start([(2, ["dense"])], "OpEvo", "autotvm-opevo tune", 100, {"dense": 2e6, "pool": 0.0}, {"dense": "dense 1x8"})
    roofline = Roofline(flops=2e11, bandwidths=((1e6, 1e11), (1e8, 3e10)))
    journal.write_limits({"dense": 1e-3}, ["dense"], {"dense": 4e6}, roofline)
    journal.write(network={"ready": True})
    journal.write_confirmed("dense", "{}", [1.1e-3, 1.2e-3], 1.15e-3, ties=1)
    for entry in read(journal.path):
        history.add(entry)
    assert (history.command, history.budget) == ("autotvm-opevo tune", 100)
    assert history.names == {"dense": "dense 1x8"}
    assert (history.flop, history.limits) == ({"dense": 2e6}, {"dense": 1e-3})
    assert (history.memory_bound, history.sizes) == ({"dense"}, {"dense": 4e6})
    assert (history.flops, history.memory_bandwidth) == (2e11, 3e10)
    assert len(history.ready) == 2
    journal.write_limits({"dense": 1e-3})
    for entry in list(read(journal.path))[-1:]:
        history.add(entry)
    assert history.memory_bound == set()
    assert history.confirmed["dense"].latencies == [1.1e-3, 1.2e-3]
    assert history.confirmed["dense"].ties == 1


def test_what_tasks_learned_from_is_that_of_the_last_run_of_each(tmp_path):
    journal = Journal(tmp_path / "journal")
    journal.write_learned_from({"dense": {"a.json": 1}, "conv2d": {"a.json": 2}, "pool": {}})
    journal.write_learned_from({"dense": {"b.json": 1}})
    journal.write_learned_from({"pool": {}})
    history = RunHistory()
    for entry in read(tmp_path / "journal"):
        history.add(entry)
    assert history.learned_from == {"dense": {"b.json": 1}, "conv2d": {"a.json": 2}}
