"""The recurrent decoder for searches. It takes the steps that `Recurrent` and `Vocabulary` take, as
fast as their weights allow once they no longer change:

- the last word reaches gates and readout by one look into a table;
- products that read the same vector are one product, laid out for the processor, perhaps in int8;
- annotations, not contexts, meet the weights of gates and readout: once a source, not once a step;
- tanh in the energies of attention becomes a sigmoid, which is cheaper and gives the same weights.

What it does not know (coverage, local attention, copying, residual layers) is left to the parts
themselves.
"""

from collections.abc import Hashable
from typing import Any

import torch
from torch import nn

from dragoman.attention import MLP, Bilinear, Dot
from dragoman.decoders import Recurrent
from dragoman.heads import Vocabulary
from dragoman.kernels.choice import has_native
from dragoman.kernels.packed import Precision
from dragoman.kernels.reading import Shelf, Watch
from dragoman.quick.course import Course, Quick
from dragoman.quick.rails import Rails


def fits(decoder: nn.Module, head: nn.Module) -> bool:
    """Whether there is a quick form of these parts."""
    if type(decoder) is not Recurrent or type(head) is not Vocabulary:
        return False
    attention, spec = decoder.attention, decoder.spec
    known = attention is None or (
        type(attention) in (MLP, Dot, Bilinear) and not attention.local and not decoder.covers
    )
    known = known and not decoder.hard
    return known and not (spec.residual and spec.layers > 1)


class Kept:
    """The quick form of a decoder and a head: made when it is first asked for, and again when the
    weights are no longer those that it was made of. It is not copied along with a model.
    """

    def __init__(self) -> None:
        self.made: tuple[Hashable, Quick] | None = None
        self.laid: tuple[Hashable, Rails] | None = None
        self.shelf = Shelf()  # the encoder's cells
        self.watches: dict[str, Watch] = {}

    def __call__(self, decoder: nn.Module, head: nn.Module, precision: Precision) -> Quick | None:
        if not fits(decoder, head) or _watched():
            return None
        first = next(head.parameters())
        key = (
            precision,
            has_native(first.device, first.dtype),
            *self._marks("writer", decoder, head),
        )
        if self.made is None or self.made[0] != key:
            assert isinstance(decoder, Recurrent)
            assert isinstance(head, Vocabulary)
            self.made = key, Quick(decoder, head, precision)
        return self.made[1]

    def forget(self) -> None:
        """Weights may have changed without a mark."""
        self.made = self.laid = None
        self.shelf, self.watches = Shelf(), {}

    def rails(self, encoder: nn.Module, quick: Quick) -> Rails:
        """The same for searches that are recorded, the encoder among what they record."""
        key = id(quick), *self._marks("reader", encoder)
        if self.laid is None or self.laid[0] != key:
            quick.graphs.clear()
            self.laid = key, Rails(encoder, quick)
        return self.laid[1]

    def _marks(self, role: str, *modules: nn.Module) -> tuple[Hashable, ...]:
        """What tells these modules' weights from what they were."""
        watch = self.watches.get(role)
        if watch is None or not watch.of(*modules):
            watch = self.watches[role] = Watch(*modules)
        return watch.marks()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Kept":
        return Kept()

    def __reduce__(self) -> tuple[type["Kept"], tuple[()]]:
        return Kept, ()


def _watched() -> bool:
    """Whether somebody learns from what is computed, rounds it, or writes it down as a graph."""
    return (
        torch.is_grad_enabled()
        or torch.is_autocast_enabled("cpu")
        or torch.is_autocast_enabled("cuda")
        or torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
    )


__all__ = ["Course", "Kept", "Precision", "Quick", "Rails", "fits"]
