"""The Triton kernels of searches against torch's operations, run by Triton's interpreter.

    TRITON_INTERPRET=1 python tests/interpreted_search.py
On a machine with a GPU, `python tests/interpreted_search.py cuda` compares the compiled kernels.
"""

import sys
from typing import Any

import torch
from torch import Tensor

from dragoman.attention import AttentionSpec
from dragoman.core import move
from dragoman.decoders import RecurrentSpec
from dragoman.device import pick_device
from dragoman.encoders import TextSpec
from dragoman.heads import VocabularySpec
from dragoman.kernels.beams import Found, Front
from dragoman.kernels.choice import using
from dragoman.kernels.fused_thin import thin
from dragoman.model import ModelSpec
from dragoman.quick.fused import Fused
from dragoman.quick.rails import Rails, Stepped
from dragoman.search.boards import Beam, Room
from dragoman.search.course_beams import Rank
from models import make, source

CASES: list[tuple[str, str, dict[str, Any], str, bool]] = [  # cell, score, way, readout, word
    ("gru", "mlp", {}, "tanh", True),
    ("lstm", "mlp", {}, "maxout", False),
    ("gru", "dot", {}, "tanh", False),
    ("lstm", "bilinear", {"when": "after", "feed": True}, "tanh", True),
    ("gru", "mlp", {"when": "after"}, "tanh", False),
]


def steps(device: str) -> list[str]:
    """Steps of decoders along the same paths, which change places and end."""
    wrong = []
    for cell, score, way, readout, word in CASES:
        size = {"readout": readout, "readout_size": 5, "readout_word": word, "hidden": 6}
        spec = ModelSpec(
            encoder=TextSpec(cell=cell, embedding=4, hidden=3),
            attention=AttentionSpec(score=score, size=5, **way),
            decoder=RecurrentSpec(cell=cell, **size),
            head=VocabularySpec(embedding=5),
        )
        model = make(spec).float().to(device)
        given = move(source(spec), torch.device(device))
        with torch.inference_mode(), using("torch"):
            form = model.quick()
            assert form is not None
            rails = Rails(model.encoder, form)
            tracks = [
                Fused(rails, rails.read(given), 2, 3),
                Stepped(rails, rails.read(given), 2, 3),
            ]
            found = [_walked(track, given, device) for track in tracks]
        for place, (a, b) in enumerate(zip(*found, strict=True)):
            if not torch.allclose(a, b, atol=2e-5):
                wrong.append(
                    f"{cell} {score} {way} output {place}: off by {(a - b).abs().max():.2g}"
                )
    return wrong


def _walked(track: Any, given: Any, device: str) -> list[Tensor]:
    """Scores and weights of three steps of six paths."""
    tokens = torch.tensor([[1] * 6, [4, 5, 6, 4, 3, 2], [5, 5, 0, 6, 4, 4]])
    parents = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 0, 2, 2, 5, 5], [0, 0, 3, 2, 4, 4]])
    track.begin(given)
    found, done = [], torch.zeros(6, dtype=torch.int8)
    for t in range(3):
        done[2] = t == 2  # a path that waits
        rest = [torch.zeros(6)] * 2
        front = Front(tokens[t], parents[t], rest[0], rest[1], done, rest[0])
        front = Front(*(part.to(device) for part in front))
        scores = track.move(front, torch.tensor([t], device=device))
        live = [0, 1, 3, 4, 5] if t == 2 else list(range(6))
        found += [scores[live, : track.symbols].clone(), track.looks[t, 0][live].clone()]
    return found


def beams(device: str) -> list[str]:
    """Beams over random scores: what is chosen, and what is found in the end."""
    wrong = []
    for width, symbols, gnmt in ((1, 9, False), (3, 9, True), (4, 2500, False)):
        like = torch.zeros((), device=device)
        looks = torch.rand(8, 1, 3 * width, 4, device=device)
        boards = []
        for kernel in ("triton", "torch"):
            with using(kernel):
                room = Room(3, width, symbols, 8, looks, like)
                boards.append(Beam(room, Rank(0.7, gnmt), width))
        assert boards[0].fused is not None
        assert boards[1].fused is None
        for board in boards:
            board.begin()
            board.bounds.copy_(torch.tensor([[0, 2, 1], [5, 3, 1]]))
        torch.manual_seed(width)
        for t in range(6):
            scores = torch.randn(3 * width, symbols, device=device) * 3
            scores[:, 2] += 4  # some end early
            for board in boards:
                board.take(scores.clone(), torch.tensor([t], device=device))
            wrong += [f"beam {width} step {t}: {w}" for w in _apart(*boards)]
        for board in boards:
            board.finish(looks, torch.tensor([6], device=device))
        wrong += [f"beam {width}: {w}" for w in _unlike(*(board.found for board in boards))]
    return wrong


def products(device: str) -> list[str]:
    """Products of a few rows, of a part of their columns."""
    wrong = []
    for rows, size, columns in ((1, 7, 3), (5, 64, 130), (16, 700, 65)):
        x, weight = torch.randn(rows, size + 3)[:, :size], torch.randn(columns, size)
        bias, wanted = torch.randn(columns), torch.empty(rows, columns)
        torch.addmm(bias, x, weight.t(), out=wanted)
        for kind in (torch.float32, torch.bfloat16) if device == "cuda" else (torch.float32,):
            out = torch.full((rows, columns), torch.nan, dtype=kind, device=device)
            thin(*(t.to(device, kind) for t in (x, weight, bias)), out)
            apart = float((out.cpu() - wanted).norm() / wanted.norm())
            if not apart <= (1e-6 if kind == torch.float32 else 0.01):
                wrong.append(f"product {rows} {size} {columns} {kind}: off by {apart:.2g}")
    return wrong


def _unlike(one: Found, two: Found) -> list[str]:
    """What differs between what was found, of paths that live, before their end."""
    wrong, alive = [], two.scores > -1e30
    real = two.tokens[:6].permute(1, 2, 0)[alive] != 0
    for name, a, b in zip(Found._fields, one, two, strict=True):
        kept = [x[alive] for x in (a, b)] if name == "scores" else []
        kept = kept or [x[:6].transpose(0, 1).transpose(1, 2)[alive][real] for x in (a, b)]
        if not torch.allclose(kept[0].float(), kept[1].float(), atol=1e-5):
            wrong.append(f"{name}: {kept[0]} for {kept[1]}")
    return wrong


def _apart(one: Beam, two: Beam) -> list[str]:
    """What differs between the ends of paths that live."""
    alive = two.front.scores > -1e30
    wrong = []
    for name in ("tokens", "parents", "scores", "lengths", "done"):
        a, b = getattr(one.front, name)[alive].double(), getattr(two.front, name)[alive].double()
        if not torch.allclose(a, b, atol=1e-5):
            wrong.append(f"{name} {a} for {b}")
    if not torch.equal(one.front.lead, two.front.lead):
        wrong.append("lead")
    return wrong


def main() -> None:
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    pick_device(device)
    wrong = products(device) + beams(device) + steps(device)
    print("\n".join(wrong) or "all is right")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
