"""The Triton kernels against the plain loop, run by Triton's interpreter on the CPU.

It is a program of its own, because Triton decides when it is imported whether it interprets:
    TRITON_INTERPRET=1 python tests/interpreted.py
On a machine with a GPU, `python tests/interpreted.py cuda` compares the compiled kernels.
"""

import sys
from itertools import product

import torch

from dragoman.kernels.contract import Given
from test_recurrence import learned, outcome, plainly, problem

CASES = list(product(("gru", "lstm"), ("before", "fed"), ("mlp", "dot"), (1, 2)))


def on(given: Given, device: str) -> Given:
    moved = (
        None if t is None else t.detach().to(device).requires_grad_(t.requires_grad)
        for t in given.flat()
    )
    return Given.of(tuple(moved))


def recurrences(device: str) -> list[str]:
    """What differs."""
    wrong = []
    for case in CASES:
        plan, given = problem(*case, drops=False, kind=torch.float)
        given = on(given, device)
        fast = outcome(plan._replace(parts="triton"), given)
        slow = plainly(plan, given)
        found = [*fast, *learned(fast, given)]
        wanted = [*slow, *learned(slow, given)]
        for place, (a, b) in enumerate(zip(found, wanted, strict=True)):
            if not torch.allclose(a, b, atol=2e-5, rtol=1e-4):
                wrong.append(f"{case} output {place}: off by {(a - b).abs().max():.2g}")
    return wrong


def main() -> None:
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    wrong = recurrences(device)
    print("\n".join(wrong) or f"{len(CASES)} recurrences are right")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
