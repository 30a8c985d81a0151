"""N-A2C (Zhang et al. 2019): advantage actor-critic over the neighbourhood of the best tiling."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from math import log
from typing import Any, NamedTuple

import numpy as np

from autotvm_opevo._utils.validation import as_integer, as_probability
from autotvm_opevo.baselines.factorizations import require_factorizations, untiled
from autotvm_opevo.search.base import Search
from autotvm_opevo.search.space import Configuration, Space
from autotvm_opevo.topology.factorization import move_factor, prime_factors

Array = np.ndarray[Any, np.dtype[Any]]

# Episodes without a new configuration before a random one is proposed.
_MAX_EPISODES = 20
# New configurations that are collected before they are evaluated.
_ROUND_SIZE = 6
# epsilon, the probability of a random action instead of the actor's; gamma, the discount factor;
# units in the hidden layer.
_EXPLORATION, _DISCOUNT, _HIDDEN_SIZE = 0.1, 0.9, 128
# Size of the replay buffer, updates after each round, and transitions per update.
_BUFFER_SIZE, _UPDATES, _MINIBATCH_SIZE = 1000, 5, 32


class Action(NamedTuple):
    """Move the prime factor `p` from the `n`-th to the `m`-th part of a knob."""

    knob: str
    n: int
    m: int
    p: int

    def __call__(self, configuration: Configuration) -> Configuration:
        moved = move_factor(configuration[self.knob], self.n, self.m, self.p)
        return {**configuration, self.knob: moved}


class Transition(NamedTuple):
    """A state, the action taken in it, and the next state; states are indices of configurations."""

    state: int
    action: int
    next_state: int


class NA2C(Search):
    """Run short episodes from the best configuration with a learned policy, and evaluate the new
    configurations they visit.

    The first configuration is the one without multi-level tiling.

    Unlike the published version, the reward is the improvement in fitness, not the fitness itself;
    states are encoded as logarithms of the parts; invalid actions are masked; rewards are
    discounted; and transitions are replayed.

    Parameters
    ----------
    space : Space
        All knobs must be factorizations.
    steps : int
        T, the number of steps in an episode.
    learning_rate : float
        Adam's learning rate, at most 1; 0 disables learning.
    seed : int, optional
        See `Search`.

    Raises
    ------
    ValueError
        If a knob is not a `Factorization`, or an argument is invalid.

    Examples
    --------
    >>> from autotvm_opevo.topology import Factorization
    >>> search = NA2C(Space({"tile": Factorization(64, parts=3)}), seed=0)
    >>> search.ask(8)
    [{'tile': (64, 1, 1)}]
    >>> search.tell(_, [1.0])
    >>> len(search.ask(8))
    6
    """

    generational = True

    def __init__(
        self, space: Space, steps: int = 3, learning_rate: float = 1e-3, seed: int | None = None
    ) -> None:
        super().__init__(space, seed)
        knobs = require_factorizations(space, "N-A2C")
        self.steps = as_integer("steps", steps)
        self._products = {name: knob.product for name, knob in knobs.items()}
        self._actions = [
            Action(name, n, m, p)
            for name, knob in knobs.items()
            for n in range(knob.parts)
            for m in range(knob.parts)
            for p in prime_factors(knob.product)
            if n != m
        ]
        state_size = sum(knob.parts for knob in knobs.values())
        learning_rate = as_probability("learning_rate", learning_rate)
        self._policy = ActorCritic(
            state_size, _HIDDEN_SIZE, len(self._actions), learning_rate, self._rng
        )
        self._unrewarded: list[Transition] = []  # those whose next state is not evaluated yet
        self._replay_buffer: deque[Transition] = deque(maxlen=_BUFFER_SIZE)
        self._encoded: dict[int, tuple[Array, Array]] = {}  # features and action masks of states

    def tell(
        self, configurations: Sequence[Mapping[str, Any]], fitnesses: Sequence[float | None]
    ) -> None:
        super().tell(configurations, fitnesses)
        evaluated = [t for t in self._unrewarded if t.next_state in self.results]
        if evaluated and self._ranking:
            self._unrewarded = [t for t in self._unrewarded if t.next_state not in self.results]
            self._replay_buffer.extend(evaluated)
            for _ in range(_UPDATES):
                self._update_policy()

    def _propose(self, n: int) -> Iterator[int | None]:
        if not self._known:
            yield self._proposable(untiled(self.space))
            return
        start = self.space[self._ranking[0][1]] if self._ranking else untiled(self.space)
        for _ in range(_MAX_EPISODES):
            yield from self._run_episode(start)
            if len(self._queue) >= _ROUND_SIZE:
                return
        if not self._queue:
            yield None

    def _run_episode(self, configuration: Configuration) -> Iterator[int]:
        """Take up to T steps; yields the new configurations on the way."""
        state = self.space.index(configuration)
        for _ in range(self.steps):
            features, mask = self._encode([state])
            if not mask.any() or len(self._queue) >= _ROUND_SIZE:
                return
            action = self._select_action(features, mask)
            configuration = self._actions[action](configuration)
            number = self._proposable(configuration)
            next_state = self.space.index(configuration)
            if number is not None:
                yield number
                self._unrewarded.append(Transition(state, action, next_state))
            state = next_state

    def _select_action(self, features: Array, mask: Array) -> int:
        if self._rng.random() < _EXPLORATION:
            return int(self._rng.choice(np.flatnonzero(mask[0])))
        probabilities, _ = self._policy(features, mask)
        return int(self._rng.choice(mask.shape[1], p=probabilities[0]))

    def _update_policy(self) -> None:
        """Update actor and critic once, on a minibatch of the replay buffer."""
        drawn = self._rng.integers(
            len(self._replay_buffer), size=min(_MINIBATCH_SIZE, len(self._replay_buffer))
        )
        transitions = [self._replay_buffer[i] for i in drawn]
        rewards = np.array([self._reward(transition) for transition in transitions])
        _, next_values = self._policy(
            *self._encode([transition.next_state for transition in transitions])
        )
        targets = rewards + _DISCOUNT * next_values
        features, mask = self._encode([transition.state for transition in transitions])
        self._policy.update(
            features, mask, np.array([transition.action for transition in transitions]), targets
        )

    def _reward(self, transition: Transition) -> float:
        """The improvement over a state, 0 if it is not evaluated, relative to the best fitness."""
        return (
            self.results[transition.next_state] - self.results.get(transition.state, 0.0)
        ) / -self._ranking[0][0]

    def _encode(self, states: Sequence[int]) -> tuple[Array, Array]:
        """Features of states, shape (states, parts), and masks of their valid actions, shape
        (states, actions).

        A feature is the logarithm of a part as a fraction of its product's, shifted to [-0.5, 0.5].
        An action is valid if its prime divides the part that it is taken from.
        """
        for number in states:
            if number not in self._encoded:
                state = self.space[number]
                logarithms = [
                    log(part) / log(max(product, 2)) - 0.5
                    for name, product in self._products.items()
                    for part in state[name]
                ]
                mask = [state[action.knob][action.n] % action.p == 0 for action in self._actions]
                self._encoded[number] = np.array(logarithms), np.array(mask, dtype=bool)
        features, masks = zip(*(self._encoded[number] for number in states))
        return np.array(features), np.array(masks)


class ActorCritic:
    """A policy (actor) and a state value (critic), both linear in a shared hidden layer of ReLU
    units and trained by Adam, whose alpha is the learning rate.
    """

    def __init__(
        self,
        state_size: int,
        hidden_size: int,
        n_actions: int,
        learning_rate: float,
        rng: np.random.Generator,
    ) -> None:
        self._learning_rate = learning_rate
        self._weights = {
            "hidden": rng.normal(0, np.sqrt(2 / state_size), (state_size, hidden_size)),
            "bias": np.zeros(hidden_size),
            "actor": rng.normal(0, 0.01, (hidden_size, n_actions)),
            "critic": rng.normal(0, 0.01, hidden_size),
        }
        self._first_moments: dict[str, Any] = dict.fromkeys(self._weights, 0.0)
        self._second_moments = dict(self._first_moments)
        self._updates = 0

    def __call__(self, states: Array, mask: Array) -> tuple[Array, Array]:
        """Return probabilities of actions, 0 where `mask` is False, and values of states."""
        return self._forward(states, mask)[1:]

    def _forward(self, states: Array, mask: Array) -> tuple[Array, Array, Array]:
        hidden = np.maximum(states @ self._weights["hidden"] + self._weights["bias"], 0)
        logits = np.where(mask, hidden @ self._weights["actor"], -np.inf)
        largest = logits.max(axis=1, keepdims=True)
        exponentials = np.exp(logits - np.where(np.isfinite(largest), largest, 0))
        probabilities = exponentials / np.maximum(exponentials.sum(axis=1, keepdims=True), 1e-300)
        return hidden, probabilities, hidden @ self._weights["critic"]

    def update(self, states: Array, mask: Array, actions: Array, targets: Array) -> None:
        """Descend the gradient of the mean of -log pi(action) * advantage + advantage^2 / 2.

        The advantage is target - value, a constant to the actor's gradient.
        """
        hidden, probabilities, values = self._forward(states, mask)
        n = len(states)
        advantages = targets - values
        # of -log softmax: (probability - one-hot action) * advantage
        grad_logits = probabilities * advantages[:, None]
        grad_logits[np.arange(n), actions] -= advantages
        grad_hidden = (
            grad_logits @ self._weights["actor"].T - advantages[:, None] * self._weights["critic"]
        ) * (hidden > 0)
        gradients = {
            "hidden": states.T @ grad_hidden / n,
            "bias": grad_hidden.mean(axis=0),
            "actor": hidden.T @ grad_logits / n,
            "critic": -hidden.T @ advantages / n,
        }
        self._adam_step(gradients)

    def _adam_step(self, gradients: dict[str, Array]) -> None:
        self._updates += 1
        for name, gradient in gradients.items():
            self._first_moments[name] += (1 - 0.9) * (gradient - self._first_moments[name])
            self._second_moments[name] += (1 - 0.999) * (gradient**2 - self._second_moments[name])
            mean = self._first_moments[name] / (1 - 0.9**self._updates)
            square = self._second_moments[name] / (1 - 0.999**self._updates)
            self._weights[name] -= self._learning_rate * mean / (np.sqrt(square) + 1e-8)
