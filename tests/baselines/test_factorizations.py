"""Spaces of factorizations: the untiled configuration."""

from autotvm_opevo import Space
from autotvm_opevo.baselines.factorizations import require_factorizations, untiled
from autotvm_opevo.topology import Factorization


def test_untiled_configuration_keeps_every_loop_whole():
    space = Space({"y": Factorization(512, 4), "x": Factorization(96, 3), "k": Factorization(7, 1)})
    assert untiled(space) == {"y": (512, 1, 1, 1), "x": (96, 1, 1), "k": (7,)}


def test_factorizations_are_returned_by_name():
    space = Space({"y": Factorization(512, 4), "x": Factorization(96, 3)})
    assert require_factorizations(space, "a search") == space.knobs
