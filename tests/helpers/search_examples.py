"""How many examples properties of searches have: one takes a hundred times as long as others."""

from hypothesis import settings

EXAMPLES = (
    20 if settings.default is settings.get_profile("default") else settings.default.max_examples
)
