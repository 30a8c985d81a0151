"""Compact storage of settings."""

from autotvm_opevo.reporting.settings import Settings
from autotvm_opevo.reporting.values import Value


def test_trials_have_the_values_that_they_were_given_and_no_others():
    given = [{"tile": (8, 1)}, {}, {"sketch": "2", "tile": (4, 2)}, {"sketch": "1"}, {"tile": (8, 1)}, {}]
    settings = Settings()
    for trial in given:
        settings.append({name: Value("choice", value) for name, value in trial.items()})
    assert [settings[i] for i in range(len(settings))] == given
