"""Small templates with knobs of every kind, and tasks created from them."""

from tvm import autotvm, te


@autotvm.template("tests/matmul")
def matmul(n, dtype):
    """Matrix product with splits, a reorder, an annotation, numbers and a boolean."""
    a = te.placeholder((n, n), name="a", dtype=dtype)
    b = te.placeholder((n, n), name="b", dtype=dtype)
    r = te.reduce_axis((0, n), name="r")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c")
    schedule = te.create_schedule(c.op)
    y, x = schedule[c].op.axis
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=3)
    y_outer, y_inner = cfg["tile_y"].apply(schedule, c, y)
    x_outer, x_middle, x_inner = cfg["tile_x"].apply(schedule, c, x)
    inner = [y_inner, r, x_middle]
    cfg.define_reorder("order", inner, policy="all")
    cfg.define_annotate("innermost", [x_inner], policy="try_unroll_vec")
    cfg.define_knob("unroll", [0, 16])
    cfg.define_knob("explicit", [True, False])
    schedule[c].reorder(y_outer, x_outer, *[inner[i] for i in cfg["order"].perm], x_inner)
    cfg["innermost"].apply(schedule, c, [x_inner])
    schedule[c].pragma(y_outer, "auto_unroll_max_step", cfg["unroll"].val)
    schedule[c].pragma(y_outer, "unroll_explicit", cfg["explicit"].val)
    return schedule, [a, b, c]


@autotvm.template("tests/scale")
def scale(n, define):
    """One loop; `define` is the name of the function that defines the knobs, which have no
    effect.
    """
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="b")
    schedule = te.create_schedule(b.op)
    DEFINE[define](autotvm.get_config(), schedule, b)
    return schedule, [a, b]


DEFINE = {}


def scaling_task(define):
    """A task whose knobs are defined by `define(cfg, schedule, tensor)`."""
    DEFINE[define.__qualname__] = define
    return autotvm.task.create("tests/scale", args=(60, define.__qualname__), target="llvm")


def matmul_task(n=16, dtype="float32"):
    return autotvm.task.create("tests/matmul", args=(n, dtype), target="llvm")
