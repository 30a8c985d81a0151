"""N-A2C: its episodes, and that it learns."""

import numpy as np
import pytest
from scipy.stats import wilcoxon

from autotvm_opevo import Space
from autotvm_opevo.baselines import NA2C
from autotvm_opevo.baselines.n_a2c import ActorCritic
from autotvm_opevo.topology import Categorical, Factorization


def space():
    return Space(
        {"y": Factorization(1024, 4), "x": Factorization(1024, 4), "k": Factorization(768, 3)}
    )


def steps_between(space, first, second):
    """The distance on the graph of factorizations: half the L1 distance of the exponents."""
    pairs = (
        (knob.coordinates(first[name]), knob.coordinates(second[name]))
        for name, knob in space.knobs.items()
    )
    return sum(abs(a - b) for one, other in pairs for a, b in zip(one, other)) // 2


class TestActorCritic:
    def network(self):
        return ActorCritic(
            state_size=3,
            hidden_size=16,
            n_actions=4,
            learning_rate=1e-2,
            rng=np.random.default_rng(0),
        )

    def test_state_values_converge_to_their_targets(self):
        state, mask, network = np.array([[0.1, -0.4, 0.3]]), np.ones((1, 4), bool), self.network()
        for _ in range(300):
            network.update(state, mask, np.array([0]), np.array([0.7]))
        assert network(state, mask)[1] == pytest.approx([0.7], abs=0.02)

    def test_masked_actions_have_probability_zero(self):
        mask = np.array([[True, False, True, False]])
        (probabilities,), _ = self.network()(np.zeros((1, 3)), mask)
        assert probabilities[[1, 3]].tolist() == [0, 0]

    def test_gradient_is_that_of_the_loss(self):
        """Against central differences, with the advantage a constant to the actor."""
        rng = np.random.default_rng(1)
        states, actions, targets = (
            rng.normal(size=(6, 3)),
            rng.integers(4, size=6),
            rng.normal(size=6),
        )
        mask = rng.random((6, 4)) < 0.7
        mask[np.arange(6), actions] = True
        network = self.network()
        gradients = {}
        network._adam_step = gradients.update
        network.update(states, mask, actions, targets)
        _, values = network(states, mask)
        advantages = targets - values

        def loss():
            probabilities, values = network(states, mask)
            actor = -np.log(probabilities[np.arange(6), actions]) * advantages
            return np.mean(actor + (targets - values) ** 2 / 2)

        for name, weight in network._weights.items():
            for position in np.ndindex(weight.shape):
                kept = weight[position]
                weight[position] = kept + 1e-6
                above = loss()
                weight[position] = kept - 1e-6
                below = loss()
                weight[position] = kept
                assert gradients[name][position] == pytest.approx((above - below) / 2e-6, abs=1e-5)


def test_round_has_six_new_states_within_three_steps_of_the_best():
    search = NA2C(space(), seed=0)
    search.tell(search.ask(1), [1.0])
    for _ in range(5):
        best = search.best[0]
        states = search.ask(8)
        assert len(states) == 6
        assert all(1 <= steps_between(search.space, best, state) <= 3 for state in states)
        search.tell(states, np.random.default_rng(0).random(6) * 2)


def smooth(target):
    def fitness(configuration):
        return float(np.exp(-steps_between(space(), configuration, target) / 3))

    return fitness


def mean_and_best_fitness(seed, learning_rate):
    """The mean and the best fitness of the evaluated configurations."""
    fitness = smooth(space().sample(np.random.default_rng(seed)))
    search, fitnesses = NA2C(space(), learning_rate=learning_rate, seed=seed), []
    while len(fitnesses) < 150:
        states = search.ask(6)
        fitnesses += [fitness(state) for state in states]
        search.tell(states, fitnesses[-len(states) :])
    return np.mean(fitnesses), np.max(fitnesses)


@pytest.mark.soak
def test_trained_policy_beats_the_untrained_one():
    trained, untrained = (
        np.array([mean_and_best_fitness(seed, rate) for seed in range(20)]) for rate in (1e-3, 0.0)
    )
    for mean_or_best in (0, 1):
        assert trained[:, mean_or_best].mean() > 1.2 * untrained[:, mean_or_best].mean()
        assert (
            wilcoxon(
                trained[:, mean_or_best], untrained[:, mean_or_best], alternative="greater"
            ).pvalue
            < 0.05
        )


def test_other_spaces_are_rejected_with_the_reason():
    with pytest.raises(
        ValueError, match=r"N-A2C only moves prime factors .*'switch' is a Categorical given"
    ):
        NA2C(Space({"y": Factorization(8, 2), "switch": Categorical([0, 1])}))


def test_an_invalid_learning_rate_is_rejected():
    with pytest.raises(ValueError, match=r"learning_rate must be between 0 and 1, 1\.5 given"):
        NA2C(space(), learning_rate=1.5)
