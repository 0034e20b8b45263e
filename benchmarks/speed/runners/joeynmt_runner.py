"""JoeyNMT's recurrent model and search, as in its examples: Bahdanau attention, input feeding, a
bridge.
"""

import warnings

warnings.simplefilter("ignore")

import torch
from joeynmt.decoders import RecurrentDecoder
from joeynmt.embeddings import Embeddings
from joeynmt.encoders import RecurrentEncoder
from joeynmt.model import Model
from joeynmt.search import beam_search, greedy
from work import BOS, EOS, PAD, UNK, Sizes, serve


class Signs:
    """What the model asks its vocabulary."""

    pad_index, bos_index, eos_index, unk_index, sep_index = PAD, BOS, EOS, UNK, None
    specials = lang_tags = ()

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


class Runner:
    def __init__(self, size: Sizes) -> None:
        tables = [
            Embeddings(size.embedding, vocab_size=size.vocabulary, padding_idx=PAD)
            for _ in range(2)
        ]
        encoder = RecurrentEncoder(
            hidden_size=size.hidden // 2, emb_size=size.embedding, num_layers=1, bidirectional=True
        )
        decoder = RecurrentDecoder(
            rnn_type="gru",
            emb_size=size.embedding,
            hidden_size=size.hidden,
            encoder=encoder,
            attention="bahdanau",
            vocab_size=size.vocabulary,
            init_hidden="bridge",
            input_feeding=True,
        )
        signs = Signs(size.vocabulary)
        self.model = Model(encoder, decoder, tables[0], tables[1], signs, signs)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.loss = torch.nn.CrossEntropyLoss(ignore_index=PAD)

    def _encode(self, given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mask = (given != PAD).unsqueeze(1)
        output, hidden, *_ = self.model._encode(given, mask.sum(2).squeeze(1), mask)
        return output, hidden, mask

    def train(self, given: torch.Tensor, target: torch.Tensor) -> None:
        self.model.train()
        given, target = given.flip(0), target.flip(0)  # it wants the longest first
        output, hidden, mask = self._encode(given)
        inputs = torch.cat([torch.full((len(target), 1), BOS), target[:, :-1]], 1)
        scores, *_ = self.model._decode(
            encoder_output=output,
            encoder_hidden=hidden,
            src_mask=mask,
            trg_input=inputs,
            unroll_steps=inputs.size(1),
            trg_mask=(inputs != PAD).unsqueeze(1),
        )
        self.loss(scores.flatten(0, 1), target.flatten()).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    @torch.no_grad()
    def decode(self, given: torch.Tensor, beam: int, steps: int) -> int:
        self.model.eval()
        with torch.no_grad():
            self.model.decoder.output_layer.weight[EOS] = 0
            if self.model.decoder.output_layer.bias is not None:
                self.model.decoder.output_layer.bias[EOS] = -30
        output, hidden, mask = self._encode(given)
        rest = {"min_output_length": steps, "repetition_penalty": -1, "no_repeat_ngram_size": -1}
        rest |= {"encoder_input": given, "return_prob": "none", "generate_unk": True}
        if beam == 1:
            found, _, _ = greedy(mask, steps, self.model, output, hidden, **rest)
        else:
            found, _, _ = beam_search(
                self.model, beam, output, hidden, mask, steps, alpha=1.0, n_best=1, **rest
            )
        return int(torch.as_tensor(found).numel())


serve(Runner)
