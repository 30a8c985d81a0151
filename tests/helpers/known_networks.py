"""What tests find out about networks once, and build once."""

from contextlib import contextmanager
from itertools import starmap
from os import PathLike


def once_for_each_network(function):
    """A function of modules and a target, which is called once for each of them."""
    known = {}

    def call(*arguments):
        key = _key(*arguments)
        if key not in known:
            known[key] = function(*arguments)
        return known[key]

    return call


def verified_once(verifying):
    """The same, of a context manager whose value is a function that knows."""
    known = {}

    @contextmanager
    def call(mod, target):
        key = _key(mod, target)
        if key in known:
            yield lambda: known[key]
            return
        with verifying(mod, target) as keeps_outputs:
            yield lambda: known.setdefault(key, keeps_outputs())

    return call


def built_once(build):
    """The same, of AutoTVM's `build`, also of a network's records; libraries are loaded anew."""
    known = {}

    def call(mod, target, best=(), disabled=()):
        from tvm import autotvm  # which only one of the TVMs has

        records = autotvm.record.load_from_file(str(best)) if isinstance(best, PathLike) else best
        key = (
            _key(mod, target),
            *(variable.name_hint for variable in mod["main"].params),  # of which no hash knows
            (*starmap(autotvm.record.encode, records),),
            (*disabled,),
            autotvm.GLOBAL_SCOPE.in_tuning,
        )
        if key not in known:
            known[key] = build(mod, target, best, disabled)
        return known[key]

    return call


def _key(*arguments):
    try:
        from tvm_ffi import structural_hash
    except ImportError:
        from tvm.ir import structural_hash
    *modules, target = arguments
    return *map(structural_hash, modules), str(target)
