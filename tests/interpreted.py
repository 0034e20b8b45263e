"""The Triton kernels against the plain loop, run by Triton's interpreter on the CPU.

It is a program of its own, because Triton decides when it is imported whether it interprets:
    TRITON_INTERPRET=1 python tests/interpreted.py
On a machine with a GPU, `python tests/interpreted.py cuda` compares the compiled kernels.
"""

import sys
from itertools import product

import torch

from dragoman.device import pick_device
from dragoman.kernels.contract import Given
from dragoman.kernels.widths import multiples
from test_recurrence import learned, outcome, plainly, problem

CASES = list(
    product(("gru", "lstm"), ("before", "gated", "fed"), ("mlp", "dot"), (1, 2), (False, True))
)

NEAR = 0.05  # of a tensor's size: how far bfloat16, with 8 bits, may lead astray


LEAST = 0.3  # of what nearly cancels out: others are of size 1 and more


def on(given: Given, device: str) -> Given:
    moved = (
        None if t is None else t.detach().to(device).requires_grad_(t.requires_grad)
        for t in given.flat()
    )
    return Given.of(tuple(moved))


def recurrences(device: str, layers: tuple[int, ...] = (1, 2)) -> list[str]:
    """What differs."""
    wrong = []
    for *case, drops in CASES:
        if case[3] not in layers:
            continue
        if drops and case[1] != "fed" and case[3] == 1:
            continue  # nothing is dropped inside
        plan, given = problem(*case, drops=drops, kind=torch.float)
        unmasked = tuple(layer._replace(mask=None) for layer in given.layers)  # torch's alone
        given = on(given._replace(layers=unmasked), device)
        fast = outcome(plan._replace(parts="triton"), given)
        slow = plainly(plan, given)
        found = [*fast, *learned(fast, given)]
        wanted = [*slow, *learned(slow, given)]
        for place, (a, b) in enumerate(zip(found, wanted, strict=True)):
            if not torch.allclose(a, b, atol=2e-5, rtol=1e-4):
                wrong.append(f"{case} {drops} output {place}: off by {(a - b).abs().max():.2g}")
    return wrong


def cast(given: Given, kind: torch.dtype) -> Given:
    moved = (
        t.detach().to(kind).requires_grad_(t.requires_grad)
        if t is not None and t.is_floating_point()
        else t
        for t in given.flat()
    )
    return Given.of(tuple(moved))


def lowered(device: str) -> list[str]:
    """In bfloat16 against the plain loop over the same numbers in float32."""
    wrong = []
    for *case, drops in CASES:
        if drops:
            continue
        plan, given = problem(*case, drops=False, kind=torch.float)
        layers = tuple(layer._replace(mask=None) for layer in given.layers)
        low = cast(on(given._replace(layers=layers), device), torch.bfloat16)
        full = cast(low, torch.float)
        fast, slow = outcome(plan._replace(parts="triton"), low), plainly(plan, full)
        found = [*fast, *learned(fast, low)]
        wanted = [*slow, *learned(slow, full)]
        for place, (a, b) in enumerate(zip(found, wanted, strict=True)):
            size = b.detach().norm().clamp(min=LEAST)
            off = float((a.detach().float() - b.detach()).norm() / size)
            if not off < NEAR:
                wrong.append(f"bf16 {case} output {place}: off by {off:.2g} of its size")
    return wrong


def entropies(device: str) -> list[str]:
    from dragoman.kernels.entropy import _plain
    from dragoman.kernels.fused_entropy import slopes

    wrong, size = [], 2500  # more than one block
    for smoothing in (0.0, 0.2):
        torch.manual_seed(0)
        scores = torch.randn(4, 2560, device=device)[:, :size] * 5
        targets = torch.tensor([3, size - 1, -1, 0], device=device)
        one, two = torch.empty(4, 2560, device=device)[:, :size].copy_(scores), scores.clone()
        sums, wanted = slopes(one, targets, smoothing), _plain(two, targets, smoothing)
        if not torch.allclose(sums, wanted, rtol=1e-5):
            wrong.append(f"entropy {smoothing}: {sums} for {wanted}")
        if not torch.allclose(one, two, atol=1e-6):
            wrong.append(f"slopes {smoothing}: off by {(one - two).abs().max():.2g}")
    return wrong


def sequences(device: str) -> list[str]:
    """Layers over rows of unequal length, in one direction and in both."""
    from dragoman.cells import Reader, StackSpec
    from dragoman.core import Padded
    from dragoman.kernels.choice import using

    wrong = []
    mask = torch.arange(6, device=device) < torch.tensor([[6], [3], [0], [1]], device=device)
    for cell, both in product(("gru", "lstm"), (False, True)):
        torch.manual_seed(0)
        reader = Reader(StackSpec(cell=cell, hidden=5, layers=2), 3, both).to(device)
        xs = torch.randn(4, 6, 3, device=device, requires_grad=True)
        sides = []
        for kernel in ("triton", "reference"):
            with using(kernel):
                hs, finals = reader(Padded(xs, mask))
            outputs = [hs, *(t for state in finals for t in state)]
            torch.manual_seed(1)
            total = sum((out * torch.randn(out.shape).to(device)).sum() for out in outputs)
            sides.append([*outputs, *torch.autograd.grad(total, [xs, *reader.parameters()])])
        for place, (a, b) in enumerate(zip(*sides, strict=True)):
            if not torch.allclose(a, b, atol=2e-5, rtol=1e-4):
                wrong.append(f"{cell} {both} output {place}: off by {(a - b).abs().max():.2g}")
    return wrong


def main() -> None:
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    pick_device(device)  # turns cuDNN's coarse products off
    wrong = sequences(device) + entropies(device)
    wrong += recurrences(device) + lowered(device)
    with multiples(of=8):
        wrong += [f"widened: {one}" for one in sequences(device) + recurrences(device, (1,))]
    print("\n".join(wrong) or "all is right")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
