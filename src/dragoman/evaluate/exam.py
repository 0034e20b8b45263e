"""The exam: the same questions, right answers and metrics for every system that is judged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dragoman.config import validate
from dragoman.corpus import read_rows, running
from dragoman.data.fields import TextSpec, clean
from dragoman.data.rows import iter_inputs
from dragoman.data.strings import Table
from dragoman.errors import UserError
from dragoman.evaluate.cases import Cases, columns, gather
from dragoman.evaluate.judged import Judged
from dragoman.examples import Say, encoded
from dragoman.metrics import (
    Comparison,
    References,
    Tally,
    bits,
    compare,
    perplexities,
    require,
    tallies,
)
from dragoman.metrics.labels import last_words
from dragoman.predict import Input, Predictor
from dragoman.recipes import merge
from dragoman.validate import likelihood, usual

PLAIN = ["exact", "cer", "wer", "chrf", "bleu"]  # where nothing is known of the text


@dataclass(frozen=True)
class Exam:
    """Questions and answers. `form` is how a model was taught to write (lower case, NFC): answers
    of all systems and references are brought into it before they are compared.

    >>> exam = Exam(gather(["1", "2"], ["one", ["two", "a pair"]]), ["exact"])
    >>> print(*exam.of_lines("mine", ["one", "a pair"]).scores())
    exact 100.00 [100.00, 100.00]
    """

    cases: Cases
    names: list[str]
    form: TextSpec | None = None
    text: Table | None = None  # running text, which has no cases
    whole: bool = False  # answers are tags, and behind them a label

    @classmethod
    def of(
        cls,
        predictor: Predictor,
        sources: Sequence[Input],
        references: References,
        names: Sequence[str] = (),
        group: bool = False,
    ) -> "Exam":
        """An exam in the form that this model writes, with the metrics that suit it."""
        cases = gather(sources, references, group)
        wanted = list(names) or usual(predictor.config, predictor.fields)
        require(wanted)  # before anything is decoded
        whole = bool(predictor.config.beyond)
        return cls(cases, wanted, predictor.fields.target.spec, whole=whole)

    def of_model(
        self, name: str, predictor: Predictor, search: Mapping[str, Any], batch_size: int = 32
    ) -> Judged:
        """What a model writes for the sources, and how likely it holds the references."""
        if self.text is not None:
            return Judged(name, [], _of_text(predictor, self.text))
        surprise = self._surprise(predictor, batch_size)
        if predictor.fields.source is None:
            return Judged(name, [], surprise)
        options = predictor.options(**search)
        lines = [p.text for p in predictor.stream(self.cases.sources, options, batch_size)]
        judged = self.of_answers(name, lines)
        return judged._replace(tallies=[*judged.tallies, surprise[0]])

    def of_lines(self, name: str, lines: Sequence[str]) -> Judged:
        """The outputs of any system, one line a row of the file."""
        if not self.names:
            raise UserError(f"{name}: a language model compares with model folders, not with lines")
        if len(lines) != self.cases.total:
            raise UserError(f"{name}: {len(lines)} lines of output for {self.cases.total} rows")
        return self.of_answers(name, [lines[row] for row in self.cases.rows])

    def compare(self, first: Judged, second: Judged) -> list[Comparison]:
        """Both systems under each metric of their writing. Perplexities are left out: they compare
        only where the units of both are the same.
        """
        if not first.written or not second.written:
            return []
        wanted, asked = [*self.wanted, *self.wanted], self.asked and [*self.asked, *self.asked]
        both = tallies(self.names, [*first.written, *second.written], wanted, asked, self.whole)
        return [compare(joint) for joint in both]

    @cached_property
    def asked(self) -> list[str] | None:
        """The first text of each input; references alone have none."""
        texts = [columns(source)[0] for source in self.cases.sources]
        return texts if any(texts) else None

    @cached_property
    def wanted(self) -> list[list[str]]:
        """All right answers of each input, in the form of the exam."""
        return [[self._formed(one) for one in several] for several in self.cases.references]

    def _formed(self, line: str) -> str:
        return clean(line, self.form) if self.form else line

    def of_answers(self, name: str, lines: Sequence[str]) -> Judged:
        """The outputs of any system, one line an input."""
        written = [self._formed(line) for line in lines]
        found = tallies(self.names, written, self.wanted, self.asked, self.whole)
        return Judged(name, written, found)

    def labels(self, lines: Sequence[str]) -> list[str]:
        """What lines say of the whole: all of them, or their last word."""
        return last_words(lines) if self.whole else list(lines)

    def _surprise(self, predictor: Predictor, batch_size: int) -> list[Tally]:
        """Each input with all its references is one item: they are not independent."""
        scored = iter(predictor.score(self.cases.examples, batch_size))
        log_probs, tokens = [], []
        for several in self.cases.references:
            found = [next(scored) for _ in several]
            log_probs.append(sum(one.score for one in found))
            tokens.append(sum(len(one.log_probs) for one in found))
        characters = [sum(len(one) + 1 for one in several) for several in self.cases.references]
        return [perplexities(log_probs, tokens), bits(log_probs, characters)]


def read_exam(
    predictor: Predictor,
    data: Mapping[str, Any],
    names: Sequence[str],
    say: Say = lambda line: None,
    group: bool | None = None,
) -> Exam:
    """The exam that files are, given as the `data` part of a config, for a model and its rivals.

    Not told otherwise, rows of the same source are several right answers to one input: so it is in
    dictionaries. In running text, which subwords are for, a sentence that comes twice counts twice,
    as it does in the figures of others.
    """
    if group is None:
        group = predictor.fields.target.spec.units != "subword"
    own = predictor.config.model_dump(mode="json")
    own["data"] |= {"train": [], "dev": []}  # the columns stay those that the model learned from
    config = validate(merge(own, {"data": dict(data)}))
    table = read_rows(config, config.data.train, say)
    tags = config.model.decoder.kind == "aligned"  # of which there may be too many or too few
    if tags or (predictor.fields.files and config.data.on_bad_line == "skip"):
        table, _ = encoded(config, predictor.fields, table, say)
    if config.data.format == "running":
        return Exam(Cases([], [], [], 0), [], text=table)
    *given, references = map(list, table.columns)
    if not config.reads_source:
        return Exam(gather([""] * len(references), references), [])
    sources: Sequence[Input] = given[0] if len(given) == 1 else list(zip(*given, strict=True))
    exam = Exam.of(predictor, sources, references, names, group)
    inputs, answers = len(exam.cases.sources), len(exam.cases.examples)
    if inputs < len(table):
        say(f"data: {len(table):,} rows are {inputs:,} inputs with {answers:,} references")
    return exam


def read_outputs(references: Sequence[str], names: Sequence[str] = ()) -> Exam:
    """The exam that one or more files of references are, for outputs of any system. A blank line
    in any file but the first is no further reference.

    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "one").write_text("a\\nb\\n"), (folder / "two").write_text("\\nc\\n")
    >>> read_outputs([str(folder / "one"), str(folder / "two")]).cases.references
    [['a'], ['b', 'c']]
    """
    require(names)
    first, *rest = columns = [read_lines(path) for path in references]
    for path, column in zip(references, columns, strict=True):
        if len(column) != len(first):
            raise UserError(f"{path}: {len(column)} lines, but {len(first)} in {references[0]}")
    several = [
        [line, *(column[row] for column in rest if column[row].strip())]
        for row, line in enumerate(first)
    ]
    whole = "accuracy-last" in names
    return Exam(gather([""] * len(first), several), list(names) or PLAIN, whole=whole)


def read_lines(path: str) -> list[str]:
    """A file as it is, blank lines too."""
    return [row.values[0] for row in iter_inputs([path], format="lines")]


def _of_text(predictor: Predictor, table: Table) -> list[Tally]:
    """One item: the parts of a text are not independent, so there is nothing to draw from."""
    text = running(predictor.fields, table)
    total = -likelihood(text, predictor.model, predictor.config)["loss"] * len(text)
    return [perplexities([total], [len(text)]), bits([total], [text.characters])]
