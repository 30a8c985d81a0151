"""What the best trials have in common."""

import numpy as np
import pytest

from autotvm_opevo.reporting.best_in_common import best_in_common
from autotvm_opevo.reporting.network import Network
from autotvm_opevo.reporting.trials import Trial
from autotvm_opevo.reporting.tuning_log import TuningLog
from autotvm_opevo.reporting.values import Value
from autotvm_opevo.topology import Factorization

TILES = list(Factorization(64, parts=3))


def found_among(trials, seed=0, latency=lambda tile, unroll: 1.0, tiles=TILES):
    """What is found of trials with random settings, one in ten of which fails."""
    log, rng = TuningLog("log"), np.random.default_rng(seed)
    for i in range(trials):
        tile, unroll = tiles[rng.integers(len(tiles))], int(rng.choice([0, 16, 64]))
        failed = rng.random() < 0.1
        seconds = np.inf if failed else latency(tile, unroll) * rng.uniform(1, 1.1)
        knobs = {"tile": Value("tile", tile), "unroll": Value("number", unroll)}
        log.add(Trial("task", "task", seconds, "failed" if failed else "", "llvm", float(i), knobs))
    (task,) = Network([log]).tasks
    return best_in_common(task)


def test_a_value_and_a_part_of_a_tile_that_make_trials_fast_are_found():
    common = found_among(400, latency=lambda tile, unroll: 1 + (tile[2] != 2) + (unroll != 16))
    assert (common.best, common.trials) == (20, 400)
    shares = {text: (best, of_all) for text, best, of_all in common.settings}
    assert shares.keys() == {"tile: *x*x2", "unroll: 16"}
    assert shares["unroll: 16"] == (1.0, pytest.approx(1 / 3, abs=0.07))


def test_a_whole_tile_is_not_listed_by_its_parts():
    common = found_among(400, latency=lambda tile, unroll: 1 + (tile != TILES[6]), tiles=TILES[::3])
    assert [text for text, *_ in common.settings] == ["tile: " + "x".join(map(str, TILES[6]))]


def test_chance_is_hardly_ever_called_common():
    assert sum(bool(found_among(120, seed).settings) for seed in range(40)) <= 4  # 5% of them, within three deviations


def test_what_most_trials_have_is_not_worth_mention():
    common = found_among(200, latency=lambda tile, unroll: 1 + (unroll == 64))
    assert all(not text.startswith("unroll") for text, *_ in common.settings)


def test_few_trials_have_nothing_to_say():
    assert found_among(80) is None
