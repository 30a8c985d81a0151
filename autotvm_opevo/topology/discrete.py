"""Numeric and categorical knobs (Section 3, discrete and categorical parameters)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from autotvm_opevo._utils.validation import is_number
from autotvm_opevo.topology.base import Encoder, Graph, LazySequence, ListedTopology, nonempty_list

# The coordinate of all values that a categorical knob does not have.
_OTHER = -1


class Discrete(ListedTopology):
    """Numbers, each adjacent to the next smaller and the next larger one.

    Parameters
    ----------
    values : iterable of numbers
        At least one; finite and distinct, in any order.

    Raises
    ------
    ValueError
        If `values` is empty, has duplicates, or holds anything but finite numbers.

    Examples
    --------
    >>> unroll = Discrete([0, 512, 1500])
    >>> unroll.neighbours(512), unroll.neighbours(1500)
    ([0, 1500], [512])
    """

    def __init__(self, values: Iterable[float]) -> None:
        given = nonempty_list(values)
        for value in given:
            if not is_number(value):
                raise ValueError(
                    f"values must be finite numbers, {value!r} given (Categorical takes anything)"
                )
        super().__init__(sorted(given))

    def neighbours(self, value: Any) -> Sequence[float]:
        i = self.index(value)
        return self._values[max(i - 1, 0) : i] + self._values[i + 1 : i + 2]

    def is_comparable(self, other: Graph) -> bool:
        """Return whether `other` has numbers, too."""
        return isinstance(other.whole, Discrete)

    def encoder(self, peers: Sequence[Graph] = ()) -> Encoder:
        """See `Graph.encoder`; other numbers are between the next smaller and the next larger
        one.
        """
        own = super().encoder()

        def encode(value: Any) -> Any:
            if value in self:
                return own(value)
            i = bisect_left(self._values, value)
            ends = self._values[max(i - 1, 0)], self._values[min(i, self.size - 1)]
            return [np.interp(float(value), ends, between) for between in zip(*map(own, ends))]

        return encode

    def __repr__(self) -> str:
        return f"Discrete({_abbreviate(self._values)})"


class Categorical(ListedTopology):
    """Values without an order, all adjacent to each other.

    Values of different types are distinct, even if they compare equal (``True`` and ``1``).

    Parameters
    ----------
    values : iterable
        At least one; any distinct objects.

    Raises
    ------
    ValueError
        If `values` is empty or has duplicates.

    Examples
    --------
    >>> explicit = Categorical([False, True, "auto"])
    >>> explicit.neighbours(True)
    [False, 'auto']
    """

    is_categorical = True

    def __init__(self, values: Iterable[Any]) -> None:
        super().__init__(nonempty_list(values))

    def neighbours(self, value: Any) -> Sequence[Any]:
        i = self.index(value)
        return LazySequence(self.size - 1, lambda k: self._values[k + (k >= i)])

    def is_comparable(self, other: Graph) -> bool:
        """Return whether `other` is categorical, too: values are compared by what they are."""
        return isinstance(other.whole, Categorical)

    def encoder(self, peers: Sequence[Graph] = ()) -> Encoder:
        """See `Graph.encoder`; all values of other tasks that this one does not have share a
        coordinate.
        """
        return lambda value: [self.index(value) if value in self else _OTHER]

    def _key(self, value: Any) -> tuple[type, Any]:
        """Differs between types: the type and the value, or its repr if it is not hashable."""
        if isinstance(value, np.generic):
            value = value.item()  # a numpy scalar equals the Python number it holds
        try:
            hash(value)
        except TypeError:
            return type(value), repr(value)
        return type(value), value

    def __repr__(self) -> str:
        return f"Categorical({_abbreviate(self._values)})"


def _abbreviate(values: list[Any]) -> str:
    if len(values) <= 8:
        return repr(values)
    return f"[{', '.join(map(repr, values[:4]))}, ..., {values[-1]!r}]"
