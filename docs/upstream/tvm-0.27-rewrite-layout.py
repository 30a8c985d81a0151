"""TVM 0.27: the postprocessor RewriteLayout wrongly packs a constant that is read at remainders of
a fused loop.

y[h, w, c] = sum_k a[h % 4 * 4 + w % 4, k] * x[k, c], with a constant `a` of 16 rows and loops of 13
iterations. Once the loop over h is fused with another, as for parallel loops, the layout that is
suggested for `a` is (i0, i1) -> (i1, i0 % 13), which maps rows 0 and 13 to the same place: no
error, but wrong results. Before it is fused, the suggested layout is right.

    python docs/upstream/tvm-0.27-rewrite-layout.py
"""

import numpy as np
import tvm
from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

TARGET = tvm.target.Target({"kind": "llvm", "num-cores": 1})
EXTENT, ROWS, K, CHANNELS = 13, 4, 8, 16

a, x = te.placeholder((ROWS**2, K), name="a"), te.placeholder((K, CHANNELS), name="x")
k = te.reduce_axis((0, K), "k")
y = te.compute(
    (EXTENT, EXTENT, CHANNELS),
    lambda h, w, c: te.sum(a[h % ROWS * ROWS + w % ROWS, k] * x[k, c], axis=k),
    name="y",
)
operator = te.create_prim_func([a, x, y]).with_attr(
    {"global_symbol": "main", "layout_free_buffers": [0]}
)

rng = np.random.default_rng(0)
arrays = [rng.random(shape, dtype="float32") for shape in ((ROWS**2, K), (K, CHANNELS))]
rows = np.arange(EXTENT) % ROWS
expected = arrays[0][rows[:, None] * ROWS + rows] @ arrays[1]

schedule = Schedule(tvm.IRModule({"main": operator}))
h, w, c, k = schedule.get_loops(schedule.get_sblock("y"))
c_outer, c_inner = schedule.split(c, [2, None])
schedule.reorder(c_outer, h, k, w, c_inner)
schedule.fuse(c_outer, h)
for rewrite in (False, True):
    if rewrite:
        space = ms.space_generator.PostOrderApply(
            sch_rules=[], postprocs=[ms.postproc.RewriteLayout()], mutator_probs={}
        )
        ms.TuneContext(schedule.mod, target=TARGET, space_generator=space)
        schedule.enter_postproc()
        assert space.postprocs[0].apply(schedule)
        print(schedule.trace.insts[-1])
    found = tvm.runtime.tensor(np.zeros((EXTENT, EXTENT, CHANNELS), "float32"))
    tvm.compile(schedule.mod, TARGET)(*map(tvm.runtime.tensor, arrays), found)
    print(
        "packed:" if rewrite else "not packed:",
        "largest error",
        np.abs(found.numpy() - expected).max(),
    )
