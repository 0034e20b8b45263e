"""A batched eager beam as toolkits in use take it, over Dragoman's own weights: "peer-like".

Step by step in Python: the memory is tiled for each hypothesis and put in order with it, keys are
projected anew at each step, the whole alphabet is normalised, the best are searched over all
hypotheses of a sentence at once, histories are put in order, and the host reads who has ended.
These are the habits of OpenNMT-py's `mlp` attention and of JoeyNMT's search, rebuilt here so that
both sides do the same work with the same weights.
"""

import math
from typing import Any

import torch
from torch import Tensor

from dragoman.core import BOS, EOS, PAD, Source
from dragoman.model import Model


@torch.inference_mode()
def peer_beam(model: Model, source: Source, steps: int, width: int) -> tuple[Tensor, Tensor]:
    """Tokens (B, T) and scores (B,) of the best hypotheses of exactly `steps` symbols."""
    enc = model.encoder(source)
    items, device = len(enc.mask), enc.memory.device
    state = model.decoder.start(enc).cells[0]
    memory, mask = (t.repeat_interleave(width, 0) for t in (enc.memory, enc.mask))
    state = tuple(part.repeat_interleave(width, 0) for part in state)
    scores = torch.tensor([0.0] + [-math.inf] * (width - 1), device=device).repeat(items, 1)
    paths = torch.full((items * width, 1), BOS, device=device)
    offset = torch.arange(0, items * width, width, device=device)[:, None]
    finished: list[list[Any]] = [[] for _ in range(items)]
    for time in range(steps):
        log_probs, state = _step(model, paths[:, -1], state, memory, mask)
        log_probs[:, [PAD, BOS]] = -math.inf
        if time < steps - 1:
            log_probs[:, EOS] = -math.inf
        else:
            log_probs[:, EOS + 1 :] = -math.inf
        size = log_probs.size(1)
        grown = (log_probs + scores.view(-1, 1)) / (time + 1)
        found, places = grown.view(items, width * size).topk(width, -1)
        scores = found * (time + 1)
        parents, symbols = (places // size + offset).view(-1), places % size
        paths = torch.cat([paths[parents], symbols.view(-1, 1)], -1)
        ended, prices = symbols.eq(EOS).tolist(), found.tolist()
        for b in range(items):
            if any(ended[b]):
                finished[b] += [
                    (prices[b][k], paths[b * width + k]) for k in range(width) if ended[b][k]
                ]
        state = tuple(part.index_select(0, parents) for part in state)
        memory, mask = memory.index_select(0, parents), mask.index_select(0, parents)
    best = [max(one, key=lambda pair: pair[0]) for one in finished]
    return torch.stack([path[1:] for _, path in best]), torch.tensor([price for price, _ in best])


def _step(
    model: Model, tokens: Tensor, state: tuple[Tensor, ...], memory: Tensor, mask: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """One symbol further: attention before the cell, the cell, the readout, the output layer."""
    decoder, head = model.decoder, model.head
    attention: Any = decoder.attention
    x = head.table(tokens)
    keys = attention.key(memory)
    hidden = torch.tanh(attention.query(state[0]).unsqueeze(1) + keys)
    energies = attention.score(hidden).squeeze(-1).masked_fill(~mask, -math.inf)
    context = torch.bmm(energies.softmax(-1).unsqueeze(1), memory).squeeze(1)
    cell: Any = decoder.stack.bottom
    gates = cell.inward(x) + decoder.inject(context)
    state = cell.advance(gates, state)
    mixed = torch.cat([state[0], context, *([x] if decoder.readout.reads_word else [])], -1)
    features = torch.tanh(decoder.readout.mix(mixed))
    scores = torch.nn.functional.linear(features, head.weight, head.bias)
    return scores.float().log_softmax(-1), state
