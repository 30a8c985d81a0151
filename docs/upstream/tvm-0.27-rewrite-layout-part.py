"""TVM 0.27: the postprocessor RewriteLayout wrongly packs a constant of which an operator reads a
part.

y[i, j] = a[i] * x[i, j], with 16 rows of x and a constant `a` of 32: the layout that is suggested
for `a` is that of the loop, i0 -> i0 % 16, which maps rows 0 and 16 to the same place: no error,
but wrong results. Slices after a product, lookups in a table and transposed convolutions read
constants like that.

    python docs/upstream/tvm-0.27-rewrite-layout-part.py
"""

import numpy as np
import tvm
from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

TARGET = tvm.target.Target({"kind": "llvm", "num-cores": 1})
ROWS, COLUMNS = 16, 8

a, x = te.placeholder((2 * ROWS,), name="a"), te.placeholder((ROWS, COLUMNS), name="x")
y = te.compute((ROWS, COLUMNS), lambda i, j: a[i] * x[i, j], name="y")
operator = te.create_prim_func([a, x, y]).with_attr(
    {"global_symbol": "main", "layout_free_buffers": [0]}
)

rng = np.random.default_rng(0)
arrays = [rng.random(shape, dtype="float32") for shape in ((2 * ROWS,), (ROWS, COLUMNS))]
expected = arrays[0][:ROWS, None] * arrays[1]

schedule = Schedule(tvm.IRModule({"main": operator}))
for rewrite in (False, True):
    if rewrite:
        space = ms.space_generator.PostOrderApply(
            sch_rules=[], postprocs=[ms.postproc.RewriteLayout()], mutator_probs={}
        )
        ms.TuneContext(schedule.mod, target=TARGET, space_generator=space)
        schedule.enter_postproc()
        assert space.postprocs[0].apply(schedule)
        print(schedule.trace.insts[-1])
    found = tvm.runtime.tensor(np.zeros((ROWS, COLUMNS), "float32"))
    tvm.compile(schedule.mod, TARGET)(*map(tvm.runtime.tensor, arrays), found)
    print(
        "packed:" if rewrite else "not packed:",
        "largest error",
        np.abs(found.numpy() - expected).max(),
    )
