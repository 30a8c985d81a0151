"""The prior of tuners on a CPU."""

from functools import partial
from typing import NamedTuple

import pytest
import tvm
from cpu_targets import PRIOR_FILES
from tvm import autotvm, te

from autotvm_opevo import OpEvoTuner
from autotvm_opevo.autotvm import search_tuner as search_tuner_module
from autotvm_opevo.autotvm.prior import prior, prior_file
from autotvm_opevo.autotvm.task_state import TaskState

CONVOLUTION = (
    te.placeholder((1, 32, 26, 26)),
    te.placeholder((48, 32, 3, 3)),
    (1, 1),
    (1, 1, 1, 1),
    (1, 1),
)
BLOCKED = (*CONVOLUTION, "NCHW", "NCHW", "float32")
DENSE = (te.placeholder((1, 384)), te.placeholder((96, 384)), None, "float32")


def create(template, args, target="llvm"):
    return autotvm.task.create(template, args=args, target=target)


class Task(NamedTuple):
    """What is asked of a task."""

    name: str
    kind: str

    @property
    def target(self):
        return tvm.target.Target(self.kind)


TASKS = {
    "convolution": create("conv2d_NCHWc.x86", BLOCKED),
    "dense": create("dense_nopack.x86", DENSE),
    "packed dense": create("dense_pack.x86", DENSE),
}


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
class TestTheTuner:
    def test_knows_tasks_like_these(self, task):
        sources = OpEvoTuner(task).learn_from([])
        assert len(sources) >= 4
        for source in sources:
            assert len(source.results) >= 16
            assert max(source.results.values()) == 1.0
            assert all(0 <= fitness <= 1 for fitness in source.results.values())

    def test_begins_with_what_was_best_elsewhere_unless_told_not_to(self, monkeypatch, task):
        def first_batch(**options):
            return [str(config) for config in OpEvoTuner(task, seed=0, **options).next_batch(8)]

        with_prior, without = first_batch(), first_batch(transfer=False)
        assert with_prior != without
        tuner = OpEvoTuner(task, seed=0)
        assert tuner.has_next()  # as AutoTVM's loop asks before the first batch
        assert [str(config) for config in tuner.next_batch(8)] == with_prior
        monkeypatch.setattr(search_tuner_module, "prior", lambda task: ())
        assert first_batch() == without


@pytest.mark.parametrize(("target", "name"), PRIOR_FILES)
def test_what_is_known_depends_on_the_width_of_vectors(target, name):
    path = prior_file(tvm.target.Target(target))
    assert path.name == name
    assert path.exists()


@pytest.mark.parametrize(
    ("template", "target"),
    [
        ("conv2d_NCHWc.x86", "cuda"),
        ("conv2d_NCHWc.cuda", "llvm"),
        ("conv2d_NCHWc.x86", "llvm -mtriple=aarch64-linux-gnu -mattr=+neon"),
    ],
)
def test_nothing_is_known_of_other_templates_and_devices(template, target):
    assert prior(Task(TASKS["convolution"].name, "llvm"))
    assert not prior(Task(template, target))


@pytest.mark.parametrize("make", [OpEvoTuner, partial(OpEvoTuner), lambda task: OpEvoTuner(task)])
@pytest.mark.parametrize("transfer", [True, False])
def test_a_network_that_must_not_transfer_does_not_know_it(make, transfer):
    assert TaskState(TASKS["dense"], make, seed=0, transfer=transfer).tuner.can_transfer == transfer


def test_a_tuner_that_must_not_transfer_does_not_in_a_network_either():
    state = TaskState(TASKS["dense"], partial(OpEvoTuner, transfer=False), seed=0)
    assert not state.tuner.can_transfer
    assert state.tuner.learn_from(prior(TASKS["dense"])) == []


def test_a_search_that_cannot_transfer_learns_nothing():
    assert OpEvoTuner(TASKS["dense"], surrogate=None).learn_from([]) == []
