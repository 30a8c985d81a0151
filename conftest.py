"""Which tests there are depends on which TVM there is: AutoTVM's, or today's with MetaSchedule."""

from importlib.util import find_spec

_OF_AUTOTVM = [
    *("autotvm_opevo/autotvm", "autotvm_opevo/cli/tvmc.py", "autotvm_opevo/tvmc.py"),
    *("tests/autotvm", "tests/benchmarks", "tests/cli/test_main.py"),
]
_OF_META_SCHEDULE = ["autotvm_opevo/meta_schedule", "tests/meta_schedule"]
# What needs no TVM is tested once, beside AutoTVM.
_OF_NONE = ["tests/baselines", "tests/tutorials", "tests/tools", "tests/reporting"]

collect_ignore = ["tests/helpers", *_OF_META_SCHEDULE]
if find_spec("tvm") and find_spec("tvm.s_tir"):
    collect_ignore = ["tests/helpers", *_OF_AUTOTVM, *_OF_NONE]
