"""The table of whole networks, of runs made up."""

import pytest

from autotvm_opevo.tuning.comparison import Comparison
from benchmarks.network_table import table, timings


def run(theirs, ours, untuned=9.0, **options):
    return {
        "network": "mlp",
        "seed": 0,
        "methods": ["XGBTuner", "tune_network"],
        "seconds": {"XGBTuner": 9.0, "tune_network": ours},
        "milliseconds": {"untuned": untuned, "XGBTuner": theirs, "tune_network": ours},
        **options,
    }


RUNS = [run(2.0, 1.0), run(2.0, 0.5), run(2.0, 2.0)]


@pytest.mark.parametrize(
    "line",
    [
        "| mlp | untuned | 9 (9 to 9) | 0.222 (0.222 to 0.222) |  |",
        "| mlp | XGBTuner | 2 (2 to 2) | 1 (1 to 1) | 9 |",
        "| mlp | tune_network | 1 (0.5 to 2) | 2 (1 to 4) | 1 |",
        "mlp: tune_network is 2.00 times (0.36 to 11.19) as fast as XGBTuner. Geometric",
    ],
)
def test_networks_have_medians_ranges_and_intervals(line):
    assert line in table(RUNS)


def test_few_repetitions_have_no_interval():
    assert "Geometric means" not in table(RUNS[:2])


def test_who_has_made_a_network_slower_deploys_the_untuned_one():
    runs = [run(2.0, 1.0, untuned=1.5) for _ in range(3)]
    assert "| mlp | XGBTuner | 2 (2 to 2) | 0.75 (0.75 to 0.75) | 9 |" in table(runs)
    assert "tune_network is 1.50 times (1.50 to 1.50) as fast as XGBTuner." in table(runs)


def test_networks_with_wrong_outputs_are_listed_and_not_timed():
    wrong = run(1.0, 1.0, seed=3, milliseconds={}, relative_errors={"XGBTuner": 0.5})
    text = table([*RUNS, wrong])
    assert text.replace(table(RUNS), "").strip() == (
        "mlp, seed 3: outputs differ, errors {'XGBTuner': 0.5}"
    )


def test_what_computed_something_else_has_errors_and_no_times():
    wrong = Comparison(["tune_network"], relative_errors=[0.5], outputs_match=False)
    assert timings(wrong) == {"milliseconds": {}, "relative_errors": {"tune_network": 0.5}}
