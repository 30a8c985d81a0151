"""Names of networks, known without TVM."""

from importlib import import_module
from importlib.util import find_spec

import pytest

from autotvm_opevo.networks.names import AUTOTVM, META_SCHEDULE, check_network


def test_they_are_those_of_the_installed_tvm():
    language, names = ("relay", AUTOTVM) if find_spec("tvm.autotvm") else ("relax", META_SCHEDULE)
    assert tuple(import_module(f"autotvm_opevo.networks.{language}").NETWORKS) == names


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("lexnet", "did you mean alexnet or mobilenet?"),
        ("ResNet_18", "did you mean resnet-18?"),
        ("transformer", "'transformer' given"),
    ],
)
def test_the_error_names_those_most_like_what_is_given(given, hint):
    with pytest.raises(ValueError, match=r"network must be one of alexnet, mlp, .*given") as error:
        check_network(given, AUTOTVM)
    assert str(error.value).endswith(hint)
