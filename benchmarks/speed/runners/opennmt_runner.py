"""OpenNMT-py's recurrent model and search: `python opennmt_runner.py [general|mlp]`, input feeding
as it comes.
"""

import sys
import warnings

warnings.simplefilter("ignore")

import torch
from onmt.decoders.decoder import InputFeedRNNDecoder
from onmt.encoders.rnn_encoder import RNNEncoder
from onmt.models import NMTModel
from onmt.modules import Embeddings
from onmt.translate import BeamSearch, GNMTGlobalScorer, GreedySearch
from onmt.translate.translator import Translator
from work import BOS, EOS, PAD, UNK, Sizes, serve

SCORE = sys.argv[1] if len(sys.argv) > 1 else "general"


class Bare(Translator):
    """The translator without vocabularies and options of its own."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model, self.copy_attn, self.tgt_file_prefix, self.report_align = (
            model,
            False,
            False,
            False,
        )
        self.global_scorer = GNMTGlobalScorer(1.0, 0.0, "avg", "none")

    def _gold_score(self, *_: object) -> tuple[None, None]:
        return None, None


class Runner:
    def __init__(self, size: Sizes) -> None:
        reader, writer = (Embeddings(size.embedding, size.vocabulary, PAD) for _ in range(2))
        encoder = RNNEncoder("GRU", True, 1, size.hidden, embeddings=reader)
        decoder = InputFeedRNNDecoder(
            "GRU", True, 1, size.hidden, attn_type=SCORE, embeddings=writer
        )
        self.model = NMTModel(encoder, decoder)
        self.model.generator = torch.nn.Linear(size.hidden, size.vocabulary)
        self.translator = Bare(self.model)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.loss = torch.nn.CrossEntropyLoss(ignore_index=PAD)

    def train(self, given: torch.Tensor, target: torch.Tensor) -> None:
        self.model.train()
        first = torch.full((len(target), 1), BOS)
        shifted = torch.cat([first, target], 1)[..., None]
        features, _ = self.model(given[..., None], shifted, (given != PAD).sum(1))
        loss = self.loss(self.model.generator(features).flatten(0, 1), target.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    @torch.no_grad()
    def decode(self, given: torch.Tensor, beam: int, steps: int) -> int:
        self.model.eval()
        signs = {"pad": PAD, "bos": BOS, "eos": EOS, "unk": UNK, "start": BOS}
        common = {
            **signs,
            "n_best": 1,
            "batch_size": len(given),
            "global_scorer": self.translator.global_scorer,
            "min_length": steps,
            "max_length": steps,
            "block_ngram_repeat": 0,
            "exclusion_tokens": set(),
            "return_attention": False,
            "ban_unk_token": False,
        }
        if beam == 1:
            strategy = GreedySearch(
                **common, sampling_temp=1.0, keep_topk=1, keep_topp=0.0, beam_size=1
            )
        else:
            strategy = BeamSearch(beam, stepwise_penalty=None, ratio=0.0, **common)
        batch = {"src": given[..., None], "srclen": (given != PAD).sum(1)}
        found = self.translator._translate_batch_with_strategy(batch, strategy)
        return sum(len(paths[0]) for paths in found["predictions"])


serve(Runner)
