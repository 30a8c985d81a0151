"""Hypothesis profiles, the default one for every run and ``--hypothesis-profile=soak`` for a long
one; and what is found out once for all tests: what the machine and the networks are like.
"""

import os
import sys

import pytest
from hypothesis import settings
from known_machine import measured_once
from known_networks import built_once, once_for_each_network, verified_once

from autotvm_opevo._utils import timeouts

settings.register_profile("default", max_examples=60, deadline=None)
settings.register_profile("soak", max_examples=2_000, deadline=None)
settings.load_profile("default")


@pytest.fixture(scope="session", autouse=True)
def _machine_is_measured_once(tmp_path_factory):
    """What it can do at most takes seconds of all its cores to measure, which each run that tunes
    does.
    """
    base = tmp_path_factory.getbasetemp()  # in that of all processes of a run
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "machine"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("autotvm_opevo.autotvm.network", "autotvm_opevo.meta_schedule.network"):
            if name in sys.modules:
                measure = sys.modules[name].measure_roofline
                patch.setattr(sys.modules[name], "measure_roofline", measured_once(measure, folder))
        yield


@pytest.fixture(scope="session", autouse=True)
def _networks_are_known():
    """The tasks of a network, whether its lowering is right, for which TVM compiles it, and what is
    built of it with the same records. A hundred tests tune the same few networks.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, function, once in (
            ("autotvm_opevo.autotvm.network", "extract", once_for_each_network),
            ("autotvm_opevo.autotvm.comparison", "extract", once_for_each_network),
            ("autotvm_opevo.autotvm.evaluation", "build", built_once),
            ("autotvm_opevo.meta_schedule.network", "verifying", verified_once),
        ):
            if module := sys.modules.get(name):
                patch.setattr(module, function, once(getattr(module, function)))
        yield


@pytest.fixture(autouse=True)
def _nothing_says_that_it_takes_long(monkeypatch):
    """How busy the machine is must not decide what is on standard error."""
    monkeypatch.setattr(timeouts, "SILENT", 600.0)


@pytest.fixture(autouse=True)
def _threads_are_left_as_they_were():
    """The command line and tutorials set how many threads TVM has, and whether they are bound, for
    their own process.
    """
    before = {name: os.environ.get(name) for name in ("TVM_NUM_THREADS", "TVM_BIND_THREADS")}
    yield
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@pytest.fixture(autouse=True)
def _trackers_of_other_tests_are_not_heard(caplog):
    """TVM tries to reach a tracker for a minute, in a thread of its own that may outlive its
    test, and logs each attempt.
    """
    caplog.handler.addFilter(lambda record: record.name != "RPCServer")
