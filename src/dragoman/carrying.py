"""Where running texts stand, in tensors that stay where they are: recorded steps go on from there
and leave there how far they came.
"""

import torch

from dragoman.core import leaves, tree_map
from dragoman.model import Carried


class Places:
    """One for states of each shape.

    >>> places, first = Places(), Carried((), torch.tensor([7]))
    >>> kept = places.settle(first)
    >>> places.settle(Carried((), torch.tensor([8]))) is kept
    True
    >>> kept.last, first.last
    (tensor([8]), tensor([7]))
    """

    def __init__(self) -> None:
        self.known: dict[tuple[object, ...], Carried] = {}

    def settle(self, carried: Carried) -> Carried:
        """The same in its place; what was there before is overwritten."""
        shapes = tuple((t.shape, t.dtype) for t in leaves(carried))
        if shapes not in self.known:
            self.known[shapes] = tree_map(torch.clone, carried)
        place = self.known[shapes]
        for mine, tensor in zip(leaves(place), leaves(carried), strict=True):
            mine.copy_(tensor)
        return place
