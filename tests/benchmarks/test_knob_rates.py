"""What runs have learned of each knob, as a table."""

from autotvm_opevo.reporting.fanova import Importance
from benchmarks import knob_rates


def test_the_table_has_medians_and_quartiles_over_tasks_and_the_most_important_knob_first():
    found = [Importance({"unroll": 0.1, "tile": share}, {}, {"unroll": 0.99, "tile": 0.5}, 0.9) for share in (0.2, 0.4, 0.6)]
    head, _, first, second = knob_rates.table(found).splitlines()
    assert head == "| knob | tasks | q, correlation per step | share of the variance by itself |"
    assert first == "| tile | 3 | 0.50 (0.50 to 0.50) | 40% (30% to 50%) |"
    assert second == "| unroll | 3 | 0.99 (0.99 to 0.99) | 10% (10% to 10%) |"
