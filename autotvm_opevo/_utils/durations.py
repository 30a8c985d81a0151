"""Durations as users write them."""

from __future__ import annotations

import math

# Seconds that a build and a run may take by default.
TIMEOUT = 20.0
# Seconds.
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """A finite, positive time, in seconds unless it has a unit: s, m or h.

    Raises
    ------
    ValueError
        If it is not.

    Examples
    --------
    >>> parse_duration("90"), parse_duration("45s"), parse_duration("90m"), parse_duration("2h")
    (90.0, 45.0, 5400.0, 7200.0)
    """
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        seconds = _UNITS[unit] * float(number)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(
            f"must be a positive number of seconds, or such as 45s, 90m or 2h, {text!r} given"
        )
    return seconds
