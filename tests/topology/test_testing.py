"""`check_topology` finds every violation of the contract."""

import pytest

from autotvm_opevo.topology import Permutation, Topology, check_topology


class Ring(Topology):
    """Four vertices in a circle; keyword arguments replace methods by broken ones."""

    def __init__(self, **broken):
        self.size = 4
        vars(self).update(broken)

    def __getitem__(self, index):
        return self._check_index(index)

    def index(self, value):
        if value not in (0, 1, 2, 3):
            raise ValueError(f"{value} is not a vertex")
        return value

    def neighbours(self, value):
        return [(value - 1) % 4, (value + 1) % 4]

    def coordinates(self, value):
        return (min(value, 4 - value), abs(value - 2))


def index_of_any_int(value):
    if isinstance(value, int):
        return value
    raise ValueError(f"{value} is not a vertex")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"size": -3}, "size must be an integer of at least 1"),
        ({"index": lambda value: 0}, "Ring: 1 is the vertex at index 1, index returns 0"),
        ({"neighbours": lambda value: []}, "Ring: 0 has no neighbours"),
        ({"neighbours": lambda value: [value]}, "Ring: 0 is its own neighbour"),
        (
            {"neighbours": lambda value: [3 - value] * 2},
            "Ring: 3 is listed twice as a neighbour of 0",
        ),
        ({"neighbours": lambda value: [value + 4]}, "4 is not a vertex"),
        (
            {"index": lambda value: value if value in range(4) else -1},
            "Ring: index must raise ValueError, it returns -1",
        ),
        (
            {"_check_index": lambda index: index},
            "Ring: __getitem__ must raise IndexError, it returns 4",
        ),
        (
            {"index": index_of_any_int, "neighbours": lambda value: [value - 1, value + 1]},
            "-1, a neighbour of 0, is not a vertex",
        ),
        (
            {"neighbours": lambda value: [0] if value == 3 else [(value - 1) % 4, (value + 1) % 4]},
            "but 2 is not a neighbour of 3",
        ),
        ({"coordinates": lambda value: (1,) * (value + 1)}, "must have different coordinates"),
        ({"coordinates": lambda value: (1,)}, "Ring: 0 and its neighbour 3 must have different"),
    ],
)
def test_violations_are_found(broken, message):
    check_topology(Ring())
    with pytest.raises(ValueError, match=message):
        check_topology(Ring(**broken))


def test_max_vertices_limits_the_check_of_a_huge_graph():
    check_topology(Permutation(16), max_vertices=5)
