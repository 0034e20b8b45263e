"""yoyodyne's GRU model with soft attention, and its searches."""

import warnings

warnings.simplefilter("ignore")

import torch
from work import BOS, EOS, PAD, Sizes, serve
from yoyodyne import data, models, special
from yoyodyne.models import modules


class Alone(models.SoftAttentionGRUModel):
    """The model outside of a trainer."""

    validating = False


class Runner:
    def __init__(self, size: Sizes) -> None:
        encoder = modules.GRUEncoder(
            embedding_size=size.embedding,
            hidden_size=size.hidden // 2,
            layers=1,
            dropout=0.0,
            bidirectional=True,
        )
        self.model = Alone(
            source_encoder=encoder,
            decoder_hidden_size=size.hidden,
            decoder_layers=1,
            decoder_dropout=0.0,
            embedding_size=size.embedding,
            vocab_size=size.vocabulary,
            target_vocab_size=size.vocabulary,
            label_smoothing=0.0,
            compute_accuracy=False,
        )
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.loss = torch.nn.CrossEntropyLoss(ignore_index=special.PAD_IDX)

    def _batch(self, given: torch.Tensor, target: torch.Tensor | None = None) -> data.Batch:
        signs = {PAD: special.PAD_IDX, BOS: special.START_IDX, EOS: special.END_IDX}

        def padded(ids: torch.Tensor) -> data.PaddedTensor:
            moved = ids.clone()
            for old, new in signs.items():
                moved[ids == old] = new
            return data.PaddedTensor.from_tensor(moved)

        return data.Batch(source=padded(given), target=None if target is None else padded(target))

    def train(self, given: torch.Tensor, target: torch.Tensor) -> None:
        self.model.train()
        self.model.beam_width = 1
        batch = self._batch(given, target)
        scores = self.model(batch)
        self.loss(scores, batch.target.tensor).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    @torch.no_grad()
    def decode(self, given: torch.Tensor, beam: int, steps: int) -> int:
        self.model.eval()
        self.model.classifier.bias[special.END_IDX] = -30
        self.model.max_target_length, self.model.beam_width = steps, beam
        found = self.model(self._batch(given))
        return int((found[0] if isinstance(found, tuple) else found).size(-1)) * len(given)


serve(Runner)
