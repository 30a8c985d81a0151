"""Names of the networks that come with the adapters, to check one before TVM is imported, which
takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

# Those of `autotvm_opevo.networks.relay` and of `autotvm_opevo.networks.relax`.
AUTOTVM = ("alexnet", "mlp", "mobilenet", "resnet-18", "resnet-50", "squeezenet", "vgg-16")
META_SCHEDULE = ("alexnet", "bert-small", "mlp", "resnet-18")


def check_network(name: str, known: Iterable[str]) -> None:
    """Raise if there is no network of a name.

    Raises
    ------
    ValueError
        The message has all names, and those most like the one that is given.

    Examples
    --------
    >>> check_network("resnet18", META_SCHEDULE)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: network must be one of alexnet, ...; 'resnet18' given: did you mean resnet-18?
    """
    names = list(known)
    if name not in names:
        written = name.lower().replace("_", "-")
        alike = [written] if written in names else get_close_matches(written, names, n=2)
        hint = f": did you mean {' or '.join(alike)}?" if alike else ""
        raise ValueError(f"network must be one of {', '.join(names)}; {name!r} given{hint}")
