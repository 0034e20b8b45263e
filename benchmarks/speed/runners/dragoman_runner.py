"""Dragoman: `python dragoman_runner.py [bf16|int8] [luong] [recipe] [plain]`.

As it is, the output layer has the peers' size: the decoder's, times the alphabet. With `recipe` it
is as Dragoman's recipes have it: what is read out is as large as an embedding, and words have one
table for both.

`plain` takes the decoder's own steps and the general search: what quick steps and direct searches
are compared with.
"""

import sys
from typing import Any

import torch
from work import BOS, EOS, PAD, Sizes, serve

from dragoman import search
from dragoman.core import Padded
from dragoman.memory import hold
from dragoman.model import ModelSpec, build

FLAGS = set(sys.argv[1:])


class Runner:
    def __init__(self, size: Sizes) -> None:
        hold()  # as `dragoman train` and `dragoman predict` do
        luong = "luong" in FLAGS
        tree: dict[str, Any] = {
            "encoder": {"embedding": size.embedding, "hidden": size.hidden // 2},
            "attention": {"size": size.hidden},
            "decoder": {"hidden": size.hidden, "readout_size": size.hidden},
            "head": {"embedding": size.embedding},
        }
        if "recipe" in FLAGS:
            tree["decoder"]["readout_size"] = size.embedding
            tree["head"]["tied"] = True
        if luong:
            tree["attention"] = {"score": "bilinear", "when": "after", "feed": True}
        self.model = build(ModelSpec.model_validate(tree), (size.vocabulary,), size.vocabulary)
        self.optimizer = torch.optim.Adam(self.model.parameters(), fused=True)
        for precision in FLAGS & {"bf16", "int8"}:
            self.model.search_in(precision)
        if "plain" in FLAGS:
            self.model.quick = lambda: None

    def train(self, given: torch.Tensor, target: torch.Tensor) -> None:
        self.model.train()
        with torch.autocast("cpu", torch.bfloat16, enabled="bf16" in FLAGS):
            loss, _ = self.model.loss(Padded(given, given != PAD), Padded(target, target != PAD))
        (loss.total / loss.tokens).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    @torch.inference_mode()
    def decode(self, given: torch.Tensor, beam: int, steps: int) -> list[list[int]]:
        """Answers of exactly `steps` symbols, the end included."""
        self.model.eval()
        source = Padded(given, given != PAD)
        length = torch.full((len(given),), steps - 1)
        if (way := self.model.course(source)) is None:
            pair = search.within(search.never(self.model.begin(source), [PAD, BOS]), length, length)
            if beam == 1:
                found = search.greedy(*pair, steps)
            else:
                found = search.beam(*pair, steps, width=beam, normalize=1.0)
        elif beam == 1:
            found = search.direct_greedy(*way, search.Limits(length, length))
        else:
            limits = search.Limits(length, length)
            found = search.direct_beam(*way, limits, width=beam, rank=search.Rank(1.0))
        assert (found.tokens[:, 0] == EOS).sum(1).eq(1).all()
        return found.tokens[:, 0].tolist()


serve(Runner)
