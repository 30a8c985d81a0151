"""The file of the best, of a network that is faster untuned than with what its trials found."""

import shutil

import pytest
from compared_networks import compared, time_two_rounds
from instant_measuring import instant
from small_networks import TARGET, one_layer, two_layers
from tvm import autotvm

from autotvm_opevo import tune_network
from autotvm_opevo.autotvm import compare_logs, network
from autotvm_opevo.autotvm.task_state import TaskState


def seconds(config):
    """As if scalar code were the fastest."""
    sizes = [knob.size[-1] for knob in config._entity_map.values() if hasattr(knob, "size")]
    return 1e-6 * sum(sizes)


def tune(log, mod=None, trials=60, **options):
    return tune_network(
        mod or two_layers(),
        {},
        TARGET,
        log,
        trials,
        instant(seconds, batch=8),
        seed=0,
        transfer=False,
        **options,
    )


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A folder with the log of such a network."""
    folder = tmp_path_factory.mktemp("tuned")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "evaluate_network", lambda *_: compared(0.010, 0.012))
        result = tune(folder / "log.json")
    assert "the best file has the untuned network" in str(result)
    return folder


@pytest.fixture
def log(tuned, tmp_path, monkeypatch):
    """A copy; when the networks are compared again, the untuned one is faster, too."""
    monkeypatch.setattr(network, "evaluate_network", lambda *_: compared(0.010, 0.012))
    shutil.copytree(tuned, tmp_path, dirs_exist_ok=True)
    return tmp_path / "log.json"


def best(log):
    """The file of the best of `log`, by the names of the tasks of `two_layers`."""
    found = autotvm.record.load_from_file(str(log.with_name("log.best.json")))
    own = [measured for measured, _ in found if measured.task.args[0][1][0] == 1]
    return {measured.task.name: measured.config for measured in own}


def test_it_has_what_the_compiler_uses_untuned(log, monkeypatch):
    assert best(log).keys() == {"conv2d_NCHWc.x86", "dense_pack.x86"}
    time_two_rounds(monkeypatch)
    compared = compare_logs(two_layers(), {}, TARGET, [log.with_name("log.best.json")])
    assert compared.relative_errors == [0.0]  # the same kernels


def test_it_stays_so_when_another_network_is_tuned_into_the_log(log):
    before = best(log)
    tune(log, one_layer(), 4, evaluate=False)
    after = best(log)
    assert after.keys() == before.keys()
    assert all(after[name].index == before[name].index for name in before)


def is_tuned(log):
    return best(log)["conv2d_NCHWc.x86"]["tile_oc"].size[-1] == 1


def test_it_stays_so_until_more_is_measured(log):
    tune(log, one_layer(), 4, evaluate=False)
    tune(log, evaluate=False)
    assert not is_tuned(log)
    tune(log, trials=64, evaluate=False)
    assert is_tuned(log)


def test_a_later_call_compares_the_tuned_network_again(log, monkeypatch):
    files = []
    monkeypatch.setattr(
        network, "evaluate_network", lambda *_: files.append(is_tuned(log)) or compared(0.012, 0.01)
    )
    assert not is_tuned(log)
    tune(log)
    assert files == [True]
    assert is_tuned(log)


def test_an_operator_without_an_untuned_record_is_left_to_the_compiler(log, monkeypatch):
    monkeypatch.setattr(TaskState, "untuned", None)
    tune(log)
    assert not best(log)
    tune(log, one_layer(), 4, evaluate=False)
    assert not best(log)
