"""Synthetic logs in the formats of AutoTVM and MetaSchedule."""

import json

from autotvm_opevo.tuning.record_lines import task_key
from autotvm_opevo.tuning.run_log import RunLog, run_log_file

# A name that breaks pages and charts that do not escape it.
HOSTILE = '<img src=x onerror="document.title=1">$x$</script>'


def key_of(template):
    """The key of the task that `autotvm_line` has a trial of."""
    return task_key("llvm", template, [["TENSOR", [1, 64], "float32"]])


# Of the tasks of `autotvm_log`.
DENSE, CONV2D = map(key_of, ("dense", "conv2d"))


def autotvm_line(
    trial, template="dense", size=64, error_no=0, tile=8, unroll=0, latency=None, cost=0.5
):
    """One line of an AutoTVM log: smaller tiles are slower, and trials end one second apart."""
    latency = 1e9 if error_no else latency or 0.064 / tile
    entity = [
        ["tile_x", "sp", [-1, tile]],
        ["order", "re", [0, 2, 1]],
        ["vec", "an", ["vec"]],
        ["unroll", "ot", unroll],
    ]
    record = {
        "input": ["llvm", template, [["TENSOR", [1, size], "float32"]], {}],
        "config": {"index": trial, "code_hash": None, "entity": entity},
        "result": [[latency], error_no, cost, 1.795e9 + trial],
        "version": 0.2,
        "tvm_version": "0.17.0",
    }
    return json.dumps(record)


def write_log(path, *lines):
    """Write a log of these lines; returns its path."""
    path.write_text("\n".join(lines) + "\n")
    return path


def record(log, *events):
    """Add events to the run log of a log or a database."""
    run_log = RunLog(run_log_file(log))
    for event in events:
        run_log.write(event)


def autotvm_log(path, trials=32, **options):
    """Write a log of two tasks in which every eighth trial fails."""
    lines = []
    for trial in range(trials):
        for template in ("dense", "conv2d"):
            tile = 2 ** (trial % 7)
            error_no = 4 if trial % 8 == 7 else 0
            lines.append(
                autotvm_line(
                    trial,
                    template,
                    tile=tile,
                    unroll=[0, 16][trial % 2],
                    error_no=error_no,
                    **options,
                )
            )
    return write_log(path, *lines)


def meta_schedule_line(tile, unroll, latency):
    """One record of a MetaSchedule database."""
    instructions = [
        ["GetSBlock", [], ["matmul", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
        ["SamplePerfectTile", ["l2"], [2, 64], ["v4", "v5"]],
        ["SampleCategorical", [], [[0, 16, 64], [0.3, 0.3, 0.4]], ["v6"]],
        ["Annotate", ["b0", "v6"], ["meta_schedule.unroll_explicit"], []],
        ["EnterPostproc", [], [], []],
    ]
    trace = [instructions, [[2, list(tile)], [3, unroll]]]
    arguments = [["TENSOR", "float32", [8, 64]], ["TENSOR", "float32", [64, 64]]]
    return json.dumps([0, [trace, [latency], {"kind": "llvm"}, arguments]])


def meta_schedule_folder(folder):
    """Write a database of eight records, one of them a failure."""
    folder.mkdir(exist_ok=True)
    tiles = [(64, 1), (32, 2), (16, 4), (8, 8), (4, 16), (2, 32), (1, 64), (64, 1)]
    lines = [
        meta_schedule_line(tile, i % 3, 1e10 if i == 5 else 1e-3 * (i + 1))
        for i, tile in enumerate(tiles)
    ]
    write_log(folder / "database_tuning_record.json", *lines)
    (folder / "database_workload.json").write_text('["1234", "..."]\n')
    return folder
