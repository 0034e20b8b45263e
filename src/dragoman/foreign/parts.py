"""What the readers of other toolkits share: tensors are taken one by one, and none is left over."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dragoman.errors import UserError


class Arrived(NamedTuple):
    """A model in our own terms."""

    tree: dict[str, Any]  # its config
    symbols: dict[str, list[str]]  # of the source and of the target, without the four specials
    weights: dict[str, Tensor]


class Tensors:
    """A checkpoint's tensors. Whoever takes one says so: what nobody takes is a part we do not
    have.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.left = {name: t.float() for name, t in tensors.items() if isinstance(t, Tensor)}

    def take(self, name: str) -> Tensor:
        if name not in self.left:
            raise UserError(f"the checkpoint has no '{name}': is it of this toolkit?")
        return self.left.pop(name)

    def has(self, name: str) -> bool:
        return name in self.left

    def finish(self) -> None:
        if self.left:
            raise UserError(f"there is no part for '{min(self.left)}': the model does not fit")


class Alphabet(NamedTuple):
    """The symbols of a column in our order, and the rows of theirs: specials first."""

    symbols: list[str]
    rows: list[int]  # -1 where they have no such sign

    @classmethod
    def of(cls, tokens: Sequence[str], pad: str, bos: str, eos: str, unk: str) -> "Alphabet":
        """
        >>> Alphabet.of(["<unk>", "<blank>", "a", "</s>"], "<blank>", "<s>", "</s>", "<unk>")
        Alphabet(symbols=['a'], rows=[1, -1, 3, 0, 2])
        """
        signs = [pad, bos, eos, unk]
        places = {token: place for place, token in enumerate(tokens)}
        rest = [token for token in tokens if token not in signs]
        return cls(rest, [places.get(token, -1) for token in [*signs, *rest]])

    def arrange(self, table: Tensor) -> Tensor:
        """The rows of a table, in our order."""
        padded = torch.cat([table, torch.zeros_like(table[:1])])
        return padded[torch.tensor(self.rows)].contiguous()


def refuse_unless(fits: bool, setting: str) -> None:
    """Refuse what has no counterpart, by its own name."""
    if not fits:
        raise UserError(f"{setting} has no counterpart here: the model cannot be imported")


def layers(tensors: Tensors, theirs: str, ours: str, count: int, both: bool) -> dict[str, Tensor]:
    """The weights of torch's own LSTM or GRU, as a reader has them."""
    found: dict[str, Tensor] = {}
    for level in range(count):
        for way, end in enumerate(("", "_reverse")[: 1 + both]):
            stem = f"{ours}.{level}.{way}"
            found |= cell(tensors, f"{theirs}.{{}}_l{level}{end}", stem)
    return found


def cell(tensors: Tensors, theirs: str, ours: str) -> dict[str, Tensor]:
    """The weights of one cell; `theirs` has a place for what torch calls them."""
    return {
        f"{ours}.{half}.{kind}": tensors.take(theirs.format(f"{kind}_{side}"))
        for half, side in (("inward", "ih"), ("across", "hh"))
        for kind in ("weight", "bias")
    }


def fed(weights: dict[str, Tensor], word: int) -> dict[str, Tensor]:
    """A decoder whose bottom layer reads the word and, beside it, what it attended to before."""
    name = "decoder.stack.cells.0.inward.weight"
    whole = weights[name]
    return weights | {
        name: whole[:, :word].contiguous(),
        "decoder.inject.weight": whole[:, word:].contiguous(),
    }
