"""How long the property tests look for a counterexample: --hypothesis-profile=soak has the time of a night."""

from hypothesis import settings

settings.register_profile("default", max_examples=60, deadline=None)
settings.register_profile("soak", max_examples=2_000, deadline=None)
settings.load_profile("default")
