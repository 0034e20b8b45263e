"""Models that leave: the same symbols wherever they run."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import dragoman
import models
from conftest import Ran
from dragoman.checkpoint import load_model
from dragoman.core import SPECIALS, Source, leaves, repeat, tree_map
from dragoman.data.fields import Field
from dragoman.data.pictures import ImageField, ImageSpec
from small import words

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

from dragoman.ship.folder import export_onnx, write_files
from dragoman.ship.graphs import Graphs, graphs
from dragoman.ship.int8 import shrink
from dragoman.ship.runner import Runner
from dragoman.ship.runner.pictures import Pictures

EVERY = models.FEW | models.LABELS
# between them: every kind of graph
FAST = ("copy-coverage", "still-match", "lstm-after-lm", "pointer-both", "video-mean", "monotone")


def source(spec: models.ModelSpec, items: int, length: int) -> Source:
    """Rows of unequal lengths, one of them as long as said, one of them of one symbol."""
    chance = torch.Generator().manual_seed(length)
    lengths = torch.randint(1, length + 1, (items,), generator=chance)
    lengths[0], lengths[-1] = length, length if items == 1 else 1
    ids = torch.randint(4, models.SOURCE, (items, length), generator=chance)
    given = models.shaped(spec, ids * (torch.arange(length) < lengths[:, None]))
    return tree_map(lambda t: t.float() if t.is_floating_point() else t, given)


def columns(spec: models.ModelSpec) -> list[str]:
    kinds = {"nothing": [], "several": ["source", "other"], "match": ["source", "other"]}
    return kinds.get(spec.encoder.kind, ["source"])


class Both:
    """A model in torch and as graphs, walked side by side."""

    def __init__(self, spec: models.ModelSpec, sharper: float = 1.0) -> None:
        import onnxruntime

        self.model = models.make(spec).float()
        for name, weight in self.model.named_parameters():
            if name.startswith("head.attention"):
                weight.data *= sharper
        self.found: Graphs = graphs(
            self.model, columns(spec), (source(spec, 3, 7), source(spec, 4, 9))
        )
        self.begin = self.found.begin and onnxruntime.InferenceSession(self.found.begin)
        self.step = onnxruntime.InferenceSession(self.found.step)

    def error(self, given: Source, paths: int, steps: int = 4) -> float:
        """The largest difference of log-probabilities and weights along random paths."""
        plan, items = self.found.plan, len(leaves(given)[0])
        known = dict(zip(plan.inputs, [leaf.numpy() for leaf in leaves(given)], strict=False))
        state = [np.zeros((items, *shape), np.float32) for shape in plan.shapes]
        if self.begin:
            names = [one.name for one in self.begin.get_outputs()]
            wanted = {one.name: known[one.name] for one in self.begin.get_inputs()}
            known |= dict(zip(names, self.begin.run(names, wanted), strict=True))
            state = [known[name] for name in plan.state]
        state = [np.repeat(leaf[:, None], paths, 1) for leaf in state]
        step, ours = self.model.begin(given)
        ours, worst = repeat(ours, paths), 0.0
        points = self.model.head.points
        alphabet = len(SPECIALS) + leaves(given)[0].shape[1] if points else models.TARGET
        for t in range(steps):
            tokens = torch.randint(
                1, alphabet, (items * paths,), generator=torch.Generator().manual_seed(t)
            )
            fed = {name: known[name] for name in plan.fixed} | {
                f"state_{i}": leaf for i, leaf in enumerate(state)
            }
            out = self.step.run(None, fed | {"tokens": tokens.view(items, paths).numpy()})
            mine = step(tokens, ours)
            ours, state = mine.state, out[1 : 1 + len(state)]
            pairs = [(mine.log_probs, out[0])]
            pairs += [(mine.weights, out[-1])] if mine.weights is not None else []
            assert plan.looks == (mine.weights is not None)
            for a, b in pairs:
                there = torch.from_numpy(b).flatten(0, 1)
                real = a > -1e30
                assert torch.equal(real, there > -1e30)
                worst = max(worst, float((a - there)[real].abs().max()))
        return worst


def same(name: str) -> None:
    spec = EVERY[name]
    both = Both(spec)
    shortest = 2 if len(columns(spec)) > 1 else 1
    with torch.no_grad():
        for items in (1, 7):
            for length in (shortest, shortest + 1, 40):
                for paths in (1, 5):
                    assert both.error(source(spec, items, length), paths) <= 1e-4


@pytest.mark.parametrize("name", FAST)
@pytest.mark.fault(27)
def test_graphs_are_the_model(name: str) -> None:
    """At lengths 1, 2 and the longest, for 1 and 7 items, of 1 and 5 paths each."""
    same(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in EVERY if name not in FAST])
def test_all_graphs_are_their_models(name: str) -> None:
    same(name)


def test_graphs_hold_where_a_place_is_all_but_certain() -> None:
    """Energies far apart: sums of what is far below the largest are not lost."""
    both = Both(EVERY["monotone"], sharper=300.0)
    with torch.no_grad():
        assert both.error(source(EVERY["monotone"], 7, 12), 5) <= 1e-3


@pytest.fixture(scope="module")
def shipped(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("onnx")
    write_files(folder, export_onnx(load_model(tiny_model)))
    return folder


INPUTS = [*words(60, seed=9), "", "a", "zzzz", "fedcbafedcba"]


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1},
        {"beam": 5},
        {"beam": 5, "n_best": 3},
        {"beam": 4, "normalize": 0.0, "max_length": 4},
        {"sample": True, "temperature": 1.5, "n_best": 2, "seed": 7},
        {"sample": True, "top_k": 3},
        {"sample": True, "top_p": 0.8},
    ],
)
@pytest.mark.fault(27)
def test_the_runner_writes_what_dragoman_writes(
    shipped: Path, tiny: dragoman.Predictor, options: dict[str, object]
) -> None:
    ours = tiny.predict(INPUTS, tiny.options(**options))
    theirs = Runner(shipped)(INPUTS, **options)
    for mine, (first, *rest) in zip(ours, theirs, strict=True):
        assert [mine.text, *(one.text for one in mine.alternatives)] == [
            first.text,
            *(one.text for one in rest),
        ]
        assert first.score == pytest.approx(mine.score, abs=1e-4)
        if mine.alignment is not None and first.weights is not None:
            width = mine.alignment.shape[1]
            np.testing.assert_allclose(first.weights[:, :width], mine.alignment, atol=1e-4)


def test_the_runner_needs_neither_torch_nor_dragoman(shipped: Path) -> None:
    """In a process that refuses to import them."""
    code = (
        "import sys; sys.modules['torch'] = sys.modules['dragoman'] = None\n"
        f"sys.argv = ['{shipped}/run.py', '--beam', '1']; sys.path.insert(0, '{shipped}')\n"
        "import runpy; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import site; site.main()\n{code}"],
        input="abc\n\nfed\n",
        capture_output=True,
        text=True,
        env={"PYTHONSAFEPATH": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3
    assert "torch" not in done.stderr


@pytest.mark.fault(27)
def test_what_runners_cannot_do_is_refused_by_name(tiny_model: Path) -> None:
    loaded = load_model(tiny_model)
    search = loaded.config.search.model_copy(update={"repetition_penalty": 1.2})
    config = loaded.config.model_copy(update={"search": search})
    with pytest.raises(dragoman.UserError, match=r"search\.repetition_penalty cannot be exported"):
        export_onnx(loaded._replace(config=config))


@pytest.mark.fault(27)
def test_a_column_that_no_runner_reads_is_refused_by_name(tiny_model: Path) -> None:
    class Smells(Field):
        spec = SimpleNamespace(kind="smell")

    loaded = load_model(tiny_model)
    fields = loaded.fields._replace(sources={"source": Smells()})
    with pytest.raises(dragoman.UserError, match=r"data\.source\.kind=smell cannot be exported"):
        export_onnx(loaded._replace(fields=fields))


def test_what_stands_there_is_not_written_over(
    verb: Callable[..., Ran], tiny_model: Path, tmp_path: Path
) -> None:
    for form, name in (("html", "page.html"), ("onnx", "folder")):
        command = ("export", tiny_model, "--to", form, "-o", tmp_path / name)
        assert verb(*command).code == 0
        ran = verb(*command)
        assert ran.code == 2
        assert "--overwrite" in ran.err
        assert verb(*command, "--overwrite").code == 0


def test_an_option_the_runner_does_not_know_is_refused(shipped: Path) -> None:
    with pytest.raises(ValueError, match="unknown option: beams"):
        Runner(shipped)(["a"], beams=3)


def test_whole_numbers_are_smaller_and_nearly_as_good(shipped: Path, tmp_path: Path) -> None:
    """And an answer hardly depends on its neighbours: each row has a scale of its own."""
    for name in ("begin.onnx", "step.onnx"):
        whole = shrink((shipped / name).read_bytes())
        assert len(whole) < 0.7 * (shipped / name).stat().st_size
        (tmp_path / name).write_bytes(whole)
    (tmp_path / "model.json").write_bytes((shipped / "model.json").read_bytes())
    small, inputs = Runner(tmp_path), words(100, seed=4)
    ours = [found[0] for found in Runner(shipped)(inputs, beam=1)]
    theirs = [found[0] for found in small(inputs, beam=1)]
    assert sum(a.text == b.text for a, b in zip(ours, theirs, strict=True)) >= 95
    for text, found in zip(inputs[:10], theirs, strict=False):
        assert small([text], beam=1)[0][0].score == pytest.approx(found.score, abs=0.01)


def test_a_thousand_words_without_torch(shipped: Path, tiny: dragoman.Predictor) -> None:
    """Greedy and with a beam of 5: the same texts as torch."""
    runner, inputs = Runner(shipped), words(1000, seed=5)
    for beam in (1, 5):
        ours = tiny.predict(inputs, tiny.options(beam=beam))
        assert [found[0].text for found in runner(inputs, beam=beam)] == [one.text for one in ours]


def test_a_picture_is_read_as_in_training(tmp_path: Path) -> None:
    """The runner's own reading of picture files, and the graphs of a captioner."""
    image = pytest.importorskip("PIL.Image")
    chance = np.random.default_rng(1)
    names = []
    for place, shape in enumerate([(9, 12, 3), (30, 20, 4), (16, 16)]):
        names.append(str(tmp_path / f"{place}.png"))
        image.fromarray(chance.integers(0, 255, shape, np.uint8)).save(names[-1])
    field = ImageField.learn(ImageSpec(height=8, width=10, aspect="pad"), names)
    about = {"size": field.size, **field.spec.model_dump(mode="json")}
    column, bad = field.read(names)
    assert not bad
    wanted = column.pad(range(len(names))).values.numpy()
    found = np.stack([Pictures(about).encode(name) for name in names])
    np.testing.assert_allclose(found, wanted, atol=1e-5)
