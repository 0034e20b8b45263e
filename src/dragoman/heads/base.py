"""What every head is: an output alphabet, read (embedded) and written (log-probabilities)."""

from torch import Tensor, nn

from dragoman.core import Encoded, Padded, Source, State, Step
from dragoman.objectives import Loss

TINY = 1e-12  # a probability below which a logarithm says nothing more


class Head(nn.Module):
    """An output alphabet."""

    copies = False  # whether it goes on over the words of the source ...
    points = False  # ... or consists of its positions
    table: nn.Embedding  # of the symbols that are the same for every source

    @property
    def open(self) -> bool:
        """Whether the alphabet depends on the source."""
        return self.copies or self.points

    def prepare(self, enc: Encoded, source: Source) -> State:
        """What of the source the alphabet depends on: nothing."""
        return ()

    def start(self, enc: Encoded) -> State:
        """What it remembers from step to step, one row per item: nothing."""
        return ()

    def embed(self, ids: Tensor, enc: Encoded) -> Tensor:
        """Read symbols, (N,) or (B, T)."""
        raise NotImplementedError

    def forward(self, features: Tensor, fixed: State, weights: Tensor | None) -> Tensor:
        """Write one: (N, F) -> log-probabilities (N, V)."""
        raise NotImplementedError

    def write(
        self, tokens: Tensor, features: Tensor, fixed: State, weights: Tensor | None, memory: State
    ) -> Step:
        """The next symbol after `tokens` (N,): how likely each is, what is remembered, where it
        looked.
        """
        log_probs = self(features, fixed, weights)
        return Step(log_probs, memory, self.looked(log_probs, weights))

    def unroll(
        self, features: Tensor, targets: Tensor, fixed: State, weights: Tensor | None
    ) -> Tensor:
        """log p of every symbol (B, T, V) after features (B, T, F), where targets (B, T) are
        written. Equals stepping.
        """
        rows = None if weights is None else weights.flatten(0, 1)
        flat: Tensor = self(features.flatten(0, 1), fixed, rows)
        return flat.view(*targets.shape, flat.size(-1))

    def looked(self, log_probs: Tensor, weights: Tensor | None) -> Tensor | None:
        """Where on the source a step looked, for people: the decoder's attention."""
        return weights

    def loss(
        self,
        features: Tensor,
        target: Padded,
        fixed: State,
        weights: Tensor | None,
        smoothing: float = 0.0,
    ) -> Loss:
        """Of features (B, T, F) against targets (B, T)."""
        raise NotImplementedError


def rows_of(features: Tensor, target: Padded) -> tuple[Tensor, Tensor, Tensor | None]:
    """Rows (N, ...) and their targets, padding left out. How many are left only the device knows:
    on a GPU, where asking would mean waiting, all stay, and the third says which are real.
    """
    if features.is_cuda:
        return features.flatten(0, 1), target.values.flatten(), target.mask.flatten()
    return features[target.mask], target.values[target.mask], None
