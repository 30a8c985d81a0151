"""N-A2C (Zhang et al. 2019): an actor and a critic learn which moves of prime factors lead to faster tilings."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from autotvm_opevo._utils.validation import as_integer, is_number
from autotvm_opevo.baselines.untiled import factorizations, untiled
from autotvm_opevo.search.base import Search
from autotvm_opevo.search.space import Configuration, Space
from autotvm_opevo.topology.factorization import prime_factors

Array = np.ndarray[Any, np.dtype[Any]]

# Walks without a new configuration before a random one takes its place.
_WALKS = 20
# What came of at most so many moves is remembered, and so many of them are replayed after each round.
_MEMORY, _REPLAYS, _MINIBATCH = 1000, 5, 32


@dataclass(frozen=True)
class Move:
    """An action: prime `p` goes from the `n`-th to the `m`-th part of a knob."""

    knob: str
    n: int
    m: int
    p: int

    def __call__(self, configuration: Configuration) -> Configuration:
        parts = list(configuration[self.knob])
        parts[self.n] //= self.p
        parts[self.m] *= self.p
        return {**configuration, self.knob: tuple(parts)}


@dataclass(frozen=True)
class Step:
    """An action that led from one configuration to another, both by their numbers."""

    state: int
    action: int
    successor: int


class NA2C(Search):
    """Walk a few steps from the best configuration known, by an actor that learns; evaluate what is new on the way.

    The first is the configuration without multi-level tiling.

    Unlike the published version: a reward is what a move to a new state gained, not
    the fitness itself; states are described by the logarithms of the parts, not by the parts; moves that a state does not have
    are masked, later gains discounted, and old moves replayed.

    Parameters
    ----------
    space : Space
        Of factorizations only.
    steps : int
        T: how many steps a walk takes.
    round_size : int
        How many new configurations are collected before they are evaluated.
    exploration : float
        epsilon: the probability of a random move instead of the actor's.
    discount : float
        gamma: what the value of the next state counts.
    hidden : int
        Units of the layer that actor and critic share.
    learning_rate : float
        Of Adam. At 0 nothing is learned.
    seed : int, optional
        As for every `Search`.

    Raises
    ------
    ValueError
        If the space has a knob that is no `Factorization`, or an argument is not what it should be.

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

    _generational = True

    def __init__(
        self,
        space: Space,
        steps: int = 3,
        round_size: int = 6,
        exploration: float = 0.1,
        discount: float = 0.9,
        hidden: int = 128,
        learning_rate: float = 1e-3,
        seed: int | None = None,
    ) -> None:
        super().__init__(space, seed)
        knobs = factorizations(space, "N-A2C")
        self.steps = as_integer("steps", steps)
        self.round_size = as_integer("round_size", round_size)
        self.exploration = _fraction("exploration", exploration)
        self.discount = _fraction("discount", discount)
        self._products = {name: knob.product for name, knob in knobs.items()}
        self._moves = [
            Move(name, n, m, p)
            for name, knob in knobs.items()
            for n in range(knob.parts)
            for m in range(knob.parts)
            for p in prime_factors(knob.product)
            if n != m
        ]
        inputs = sum(knob.parts for knob in knobs.values())
        rate = _fraction("learning_rate", learning_rate)
        self._policy = ActorCritic(inputs, as_integer("hidden", hidden), len(self._moves), rate, self._rng)
        self._mutate: list[Step] = []  # those that end where nothing was evaluated yet
        self._memory: deque[Step] = deque(maxlen=_MEMORY)
        self._described: dict[int, tuple[Array, Array]] = {}  # features and legal moves of states

    def tell(self, configurations: Sequence[Mapping[str, Any]], fitnesses: Sequence[float]) -> None:
        super().tell(configurations, fitnesses)
        evaluated = [step for step in self._mutate if step.successor in self._fitness]
        if evaluated and self._ranking:
            self._mutate = [step for step in self._mutate if step.successor not in self._fitness]
            self._memory.extend(evaluated)
            for _ in range(_REPLAYS):
                self._learn()

    def _generate(self) -> None:
        if not self._known:
            self._enqueue(self._proposable(untiled(self.space)))
            return
        start = self.space[self._ranking[0][1]] if self._ranking else untiled(self.space)
        for _ in range(_WALKS):
            self._walk(start)
            if len(self._queue) >= self.round_size:
                return
        if not self._queue:
            self._enqueue(None)

    def _walk(self, configuration: Configuration) -> None:
        """Queue what is new on a walk of up to T steps."""
        state = self.space.index(configuration)
        for _ in range(self.steps):
            features, legal = self._describe([state])
            if not legal.any() or len(self._queue) >= self.round_size:
                return
            action = self._act(features, legal)
            configuration = self._moves[action](configuration)
            number = self._proposable(configuration)
            successor = self.space.index(configuration)
            if number is not None:
                self._enqueue(number)
                self._mutate.append(Step(state, action, successor))
            state = successor

    def _act(self, features: Array, legal: Array) -> int:
        if self._rng.random() < self.exploration:
            return int(self._rng.choice(np.flatnonzero(legal[0])))
        probabilities, _ = self._policy(features, legal)
        return int(self._rng.choice(legal.shape[1], p=probabilities[0]))

    def _learn(self) -> None:
        """One step of Adam on a minibatch of what was evaluated."""
        chosen = self._rng.integers(len(self._memory), size=min(_MINIBATCH, len(self._memory)))
        steps = [self._memory[i] for i in chosen]
        rewards = np.array([self._gain(step) for step in steps])
        _, values = self._policy(*self._describe([step.successor for step in steps]))
        targets = rewards + self.discount * values
        features, legal = self._describe([step.state for step in steps])
        self._policy.learn(features, legal, np.array([step.action for step in steps]), targets)

    def _gain(self, step: Step) -> float:
        """The reward: what a move brought, in parts of the best fitness. A state on the way that is not evaluated counts 0."""
        return (self._fitness[step.successor] - self._fitness.get(step.state, 0.0)) / -self._ranking[0][0]

    def _describe(self, states: Sequence[int]) -> tuple[Array, Array]:
        """What the network sees of states, shape (states, parts), and which moves there are, shape (states, actions).

        It sees the logarithm of every part, as a fraction of its product's, from -0.5 to 0.5. A move is legal when its prime
        divides the part that it is taken from.
        """
        for number in states:
            if number not in self._described:
                state = self.space[number]
                parts = [(part, product) for name, product in self._products.items() for part in state[name]]
                features = np.array([log(part) / log(max(product, 2)) - 0.5 for part, product in parts])
                legal = np.array([state[move.knob][move.n] % move.p == 0 for move in self._moves], dtype=bool)
                self._described[number] = features, legal
        described = [self._described[number] for number in states]
        return np.array([features for features, _ in described]), np.array([legal for _, legal in described])


class ActorCritic:
    """A softmax over actions and a value of the state, linear in one shared hidden layer of rectified units; Adam trains them.

    Parameters
    ----------
    inputs, hidden, actions : int
        The layers' widths.
    learning_rate : float
        Adam's alpha; its other parameters are the usual ones.
    rng : numpy.random.Generator
        Draws the first weights.
    """

    def __init__(self, inputs: int, hidden: int, actions: int, learning_rate: float, rng: np.random.Generator) -> None:
        self._rate = learning_rate
        self._weights = {
            "hidden": rng.normal(0, np.sqrt(2 / inputs), (inputs, hidden)),
            "bias": np.zeros(hidden),
            "actor": rng.normal(0, 0.01, (hidden, actions)),
            "critic": rng.normal(0, 0.01, hidden),
        }
        self._mean = {name: np.zeros_like(weight) for name, weight in self._weights.items()}
        self._square = {name: np.zeros_like(weight) for name, weight in self._weights.items()}
        self._steps = 0

    def __call__(self, states: Array, legal: Array) -> tuple[Array, Array]:
        """The probability of every action, shape (states, actions), 0 for those that are not legal, and the states' values."""
        return self._forward(states, legal)[1:]

    def _forward(self, states: Array, legal: Array) -> tuple[Array, Array, Array]:
        hidden = np.maximum(states @ self._weights["hidden"] + self._weights["bias"], 0)
        scores = np.where(legal, hidden @ self._weights["actor"], -np.inf)
        best = scores.max(axis=1, keepdims=True)
        exponentials = np.exp(scores - np.where(np.isfinite(best), best, 0))
        probabilities = exponentials / np.maximum(exponentials.sum(axis=1, keepdims=True), 1e-300)
        return hidden, probabilities, hidden @ self._weights["critic"]

    def learn(self, states: Array, legal: Array, actions: Array, targets: Array) -> None:
        """Descend the gradient of the mean of -log pi(action) (target - value) + (target - value)^2 / 2.

        The actor's advantage, target - value, is a constant to its gradient.
        """
        hidden, probabilities, values = self._forward(states, legal)
        n = len(states)
        advantages = targets - values
        scores = probabilities * advantages[:, None]
        scores[np.arange(n), actions] -= advantages  # of -log softmax: (probability - chosen) times the advantage
        back = (scores @ self._weights["actor"].T - advantages[:, None] * self._weights["critic"]) * (hidden > 0)
        gradients = {
            "hidden": states.T @ back / n,
            "bias": back.mean(axis=0),
            "actor": hidden.T @ scores / n,
            "critic": -hidden.T @ advantages / n,
        }
        self._descend(gradients)

    def _descend(self, gradients: dict[str, Array]) -> None:
        """One step of Adam."""
        self._steps += 1
        for name, gradient in gradients.items():
            self._mean[name] += (1 - 0.9) * (gradient - self._mean[name])
            self._square[name] += (1 - 0.999) * (gradient**2 - self._square[name])
            mean = self._mean[name] / (1 - 0.9**self._steps)
            square = self._square[name] / (1 - 0.999**self._steps)
            self._weights[name] -= self._rate * mean / (np.sqrt(square) + 1e-8)


def _fraction(name: str, value: Any) -> float:
    if not is_number(value) or not 0 <= value <= 1:
        raise ValueError(f"{name} must be a number of 0 to 1, {value!r} given")
    return float(value)
