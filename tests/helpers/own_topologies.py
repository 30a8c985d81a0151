"""A topology as a user writes it: a class with a size, the three abstract methods and a name."""

from autotvm_opevo.topology import Topology


class Ring(Topology):
    """Numbers in a circle."""

    def __init__(self, size):
        self.size = size

    def __getitem__(self, index):
        return self._check_index(index)

    def index(self, value):
        if value not in range(self.size):
            raise self._invalid_value(value)
        return value

    def neighbours(self, value):
        value = self.index(value)
        return sorted({(value - 1) % self.size, (value + 1) % self.size} - {value})

    def __repr__(self):
        return f"{type(self).__name__}({self.size})"


class Shared(Ring):
    """Numbers that mean the same in rings of all sizes; larger ones are as far as the largest."""

    def is_comparable(self, other):
        return isinstance(other.whole, Shared)

    def encoder(self, peers=()):
        return lambda value: [min(value, self.size - 1)]
