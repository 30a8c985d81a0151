"""What runs have learned of each knob, as a table."""

from autotvm_opevo.reporting.fanova import Importance
from benchmarks import knob_rates


def test_the_table_has_medians_and_quartiles_over_tasks_and_the_most_important_knob_first():
    tiles = {"dense, loop 2, 10 iterations": 0.2, "dense, loop 2, 32 iterations": 0.4, "dense, loop 2, 64 iterations": 0.6}
    found = [Importance({"unroll": 0.1, tile: share}, {}, {"unroll": 0.99, tile: 0.5}, 0.9) for tile, share in tiles.items()]
    head, _, first, second = knob_rates.table(found).splitlines()
    assert head == "| knob | tasks | q, correlation per step | share of the variance by itself |"
    assert first == "| dense, loop 2 | 3 | 0.50 (0.50 to 0.50) | 40% (30% to 50%) |"
    assert second == "| unroll | 3 | 0.99 (0.99 to 0.99) | 10% (10% to 10%) |"
