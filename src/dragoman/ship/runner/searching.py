"""Search over a step function, as Dragoman does it: a beam (of one path: greedy), or chance."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .columns import BOS, EOS, PAD, UNK
from .orders import astray, repeated

NEVER = np.float32(-np.inf)
Array = npt.NDArray[Any]
Step = Callable[[Array, list[Array]], list[Array]]  # symbols (B, K), state -> log_probs, state, ...


class Paths(NamedTuple):
    """What a search found: tokens (B, W, T), log-probabilities (B, W), attention (B, W, T, S)."""

    tokens: Array
    scores: Array
    weights: Array | None


class Limits(NamedTuple):
    """What answers may be, item by item."""

    least: Array  # (B,) symbols before the end
    most: Array  # (B,)
    prompts: list[list[int]]  # how they begin
    own: Array | None  # (B,) the first symbol that an item's own source does not have
    counts: Array  # (B,) how many positions there are to point at


class Rules:
    """What may be written next. Where a rule would leave a path no way on, it stands aside."""

    def __init__(self, ends: str, limits: Limits, valid: str = "none", grams: int = 0) -> None:
        """`valid`: which orders of positions are answers; `grams`: sequences of so many symbols
        are not written twice.
        """
        self.limits, self.valid, self.grams = limits, valid, grams
        self.limited = ends != "once"
        self.steps = int(limits.most.max()) + self.limited
        self.signs = [PAD, BOS] if ends == "sign" else [PAD, BOS, UNK]
        self.prompts = np.full((len(limits.prompts), self.steps), PAD)
        for row, prompt in zip(self.prompts, limits.prompts, strict=True):
            row[: len(prompt)] = prompt

    def __call__(self, log_probs: Array, history: Array) -> Array:
        """Log-probabilities (B, K, V) of the symbols after others (B, K, T), BOS first."""
        place, alphabet = history.shape[2] - 1, log_probs.shape[-1]
        log_probs = log_probs.copy()
        log_probs[..., self.signs] = NEVER
        symbols, limits = np.arange(alphabet), self.limits
        if self.valid != "none":
            log_probs = _forbid(log_probs, astray(self.valid, history, limits.counts, alphabet))
        elif limits.own is not None:
            log_probs = _forbid(log_probs, (symbols >= limits.own[:, None])[:, None])
        due = self.prompts[:, place, None]
        log_probs = _forbid(log_probs, ((symbols != due) & (due != PAD))[:, None])
        if self.limited:
            late = (place >= limits.most)[:, None]
            early = (place < limits.least)[:, None] & (symbols == EOS)
            log_probs = _forbid(log_probs, np.where(late, symbols != EOS, early)[:, None])
        if self.grams:
            log_probs = _forbid(log_probs, repeated(history, self.grams, alphabet))
        return log_probs


def _forbid(log_probs: Array, banned: Array) -> Array:
    left = np.where(banned, NEVER, log_probs)
    return np.where((left > NEVER).any(-1, keepdims=True), left, log_probs)


def beam(
    step: Step, state: list[Array], rules: Rules, width: int, normalize: float, gnmt: bool
) -> Paths:
    """The best paths. Finished ones wait; the greedy one keeps its place; paths compare by
    log p / length^normalize.
    """
    items = len(rules.limits.most)
    rows = np.arange(items)[:, None]
    state = [np.repeat(leaf[:, None], width, 1) for leaf in state]
    tokens, history = np.full((items, width), BOS), np.full((items, width, 1), BOS)
    scores = np.full((items, width), NEVER)
    scores[:, 0] = 0
    lengths, done = np.zeros((items, width), np.float32), np.zeros((items, width), bool)
    lead = np.zeros((items, 1), np.int64)
    trail: list[tuple[Array, Array, Array | None]] = []
    for _ in range(rules.steps):
        out = step(tokens, state)
        going = rules(out[0], history)
        alphabet = going.shape[-1]
        wait = np.where(np.arange(alphabet) == PAD, np.float32(0), NEVER)
        candidates = scores[..., None] + np.where(done[..., None], wait, going)
        lengths = lengths + ~done
        ranks = candidates / _divisor(lengths, normalize, gnmt)[..., None]
        best = _largest(ranks.reshape(items, -1), width)
        wanted = lead * alphabet + candidates[rows, lead].argmax(-1)
        best[:, -1:] = np.where((best != wanted).all(1, keepdims=True), wanted, best[:, -1:])
        lead = (best == wanted).argmax(1)[:, None]
        parent, tokens = best // alphabet, best % alphabet
        history = np.concatenate([history[rows, parent], tokens[..., None]], -1)
        scores = candidates.reshape(items, -1)[rows, best]
        lengths, done = lengths[rows, parent], done[rows, parent] | (tokens == EOS)
        done |= np.isinf(scores)
        trail.append((parent, tokens, out[-1] if len(out) > 1 + len(state) else None))
        state = [leaf[rows, parent] for leaf in out[1 : 1 + len(state)]]
        if done.all():
            break
    ranks = scores / _divisor(lengths, normalize, gnmt)
    order = np.argsort(-ranks, axis=1, kind="stable")
    return _traced(trail, order, scores[rows, order])


def _divisor(lengths: Array, normalize: float, gnmt: bool) -> Array:
    base = (5 + lengths) / 6 if gnmt else lengths.clip(min=1)
    with np.errstate(over="ignore"):
        found = np.power(base, np.float32(normalize), dtype=np.float32)
    return np.minimum(found, np.finfo(np.float32).max)


def _largest(values: Array, count: int) -> Array:
    """Places of the largest values of each row, largest first."""
    some = np.argpartition(-values, min(count, values.shape[1]) - 1, axis=1)[:, :count]
    rows = np.arange(len(values))[:, None]
    return some[rows, np.argsort(-values[rows, some], axis=1, kind="stable")]


def _traced(trail: list[tuple[Array, Array, Array | None]], slots: Array, scores: Array) -> Paths:
    rows = np.arange(len(slots))[:, None]
    tokens, weights = [], []
    for parent, token, seen in reversed(trail):
        tokens.append(token[rows, slots])
        slots = parent[rows, slots]
        weights.append(None if seen is None else seen[rows, slots])
    looked = [w for w in weights[::-1] if w is not None]
    return Paths(np.stack(tokens[::-1], -1), scores, np.stack(looked, 2) if looked else None)


def sample(
    step: Step, state: list[Array], rules: Rules, noise: Array, taste: dict[str, Any]
) -> Paths:
    """Random paths; `noise` (B, K, T) in [0, 1) is all the chance there is."""
    count = noise.shape[1]
    state = [np.repeat(leaf[:, None], count, 1) for leaf in state]
    tokens, history = np.full(noise.shape[:2], BOS), np.full((*noise.shape[:2], 1), BOS)
    done, scores = np.zeros(noise.shape[:2], bool), np.zeros(noise.shape[:2], np.float32)
    path, looked = [], []
    for place in range(rules.steps):
        out = step(tokens, state)
        log_probs = rules(out[0], history)
        tokens = np.where(done, PAD, _drawn(log_probs, noise[:, :, place], taste))
        history = np.concatenate([history, tokens[..., None]], -1)
        gains = np.take_along_axis(log_probs, tokens[..., None], -1)[..., 0]
        scores = scores + np.where(done, 0, gains)
        path.append(tokens)
        looked += [out[-1]] if len(out) > 1 + len(state) else []
        state, done = out[1 : 1 + len(state)], done | (tokens == EOS)
        if done.all():
            break
    return Paths(np.stack(path, -1), scores, np.stack(looked, 2) if looked else None)


def _drawn(log_probs: Array, chance: Array, taste: dict[str, Any]) -> Array:
    """Symbols where numbers in [0, 1) fall in the distribution."""
    if taste["temperature"] == 0:
        return np.asarray(log_probs.argmax(-1))
    kept = log_probs / np.float32(taste["temperature"])
    if 0 < taste["top_k"] < kept.shape[-1]:
        least = np.sort(kept, -1)[..., -taste["top_k"], None]
        kept = np.where(kept < least, NEVER, kept)
    if taste["top_p"] < 1:
        mass = _softmax(kept)
        order = np.argsort(-mass, -1, kind="stable")
        ordered = np.take_along_axis(mass, order, -1)
        outside = np.zeros(mass.shape, bool)
        np.put_along_axis(outside, order, ordered.cumsum(-1) - ordered >= taste["top_p"], -1)
        kept = np.where(outside, NEVER, kept)
    mass = _softmax(kept).cumsum(-1)
    found: Array = np.argmax(mass > chance.clip(max=1 - 1e-6)[..., None] * mass[..., -1:], -1)
    return found


def _softmax(values: Array) -> Array:
    grown: Array = np.exp(values - values.max(-1, keepdims=True))
    grown /= grown.sum(-1, keepdims=True)
    return grown


def chance(seed: int, places: Sequence[int], steps: int, count: int) -> Array:
    """Uniform numbers that depend on the seed and each input's place in its stream alone."""
    rows = [
        np.random.default_rng([seed, place]).random((steps, count), np.float32).T
        for place in places
    ]
    return np.stack(rows)
