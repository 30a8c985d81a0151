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
        ({"size": -3}, "size of a Ring must be an integer of at least 1"),
        ({"index": lambda value: 0}, "index of a Ring: 1 is the vertex at index 1, 0 returned"),
        ({"index": lambda value: value / 0}, "index of a Ring: 0 raises ZeroDivisionError"),
        ({"neighbours": lambda value: []}, "neighbours of a Ring: 0 has none"),
        ({"neighbours": lambda value: None}, "neighbours of a Ring: 0 raises TypeError"),
        ({"neighbours": lambda value: [value]}, "neighbours of a Ring: 0 is its own neighbour"),
        (
            {"neighbours": lambda value: [3 - value] * 2},
            "neighbours of a Ring: 3 is listed twice as a neighbour of 0",
        ),
        ({"neighbours": lambda value: [value + 4]}, "index of a Ring: 4 raises ValueError"),
        (
            {"index": lambda value: int(value)},
            r"index of a Ring must raise ValueError for an invalid argument; for <object .*raised",
        ),
        (
            {"index": lambda value: 0 if isinstance(value, str) else value},
            "index of a Ring must raise ValueError",
        ),
        (
            {"_check_index": lambda index: index},
            "__getitem__ of a Ring must raise IndexError for an invalid argument; for 4 it "
            "returned 4",
        ),
        (
            {"index": index_of_any_int, "neighbours": lambda value: [value - 1, value + 1]},
            "-1, a neighbour of 0, is not a vertex",
        ),
        (
            {"neighbours": lambda value: [0] if value == 3 else [(value - 1) % 4, (value + 1) % 4]},
            "but 2 is not a neighbour of 3",
        ),
        ({"coordinates": lambda value: "abc"}, "coordinates of a Ring: 0 raises TypeError"),
        (
            {"coordinates": lambda value: (1,) * (value + 1)},
            "coordinates of a Ring: 0 has 1, 3 has 4",
        ),
        (
            {"coordinates": lambda value: (1,)},
            "coordinates of a Ring: 0 and its neighbour 3 have the same",
        ),
    ],
)
def test_violations_are_found(broken, message):
    check_topology(Ring())
    with pytest.raises(ValueError, match=message):
        check_topology(Ring(**broken))


def test_max_vertices_limits_the_check_of_a_huge_graph():
    check_topology(Permutation(16), max_vertices=5)
