"""A model as two ONNX graphs: one reads a source, the other writes a symbol.

The first (`begin`) gives what a decoder keeps of the source and where it starts. The second
(`step`) takes symbols (B, K) and a state and gives log-probabilities (B, K, V), the new state and
where it looked (B, K, S). B items, K paths each and all lengths are free.
"""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dragoman.core import Source, leaves, rebuild
from dragoman.model import Known, Model, Standing
from dragoman.ship.translate import table

OPSET = 18
PATHS = (2, 3)  # an item, in the two cases that are compared


class Plan(NamedTuple):
    """What the tensors between the two graphs are called."""

    inputs: list[str]  # of `begin`: values and mask of each source column
    fixed: list[str]  # what `step` reads of the source: inputs or outputs of `begin`
    state: list[str]  # for each tensor that travels from step to step, what `begin` calls its start
    shapes: list[list[int]]  # of the state, without rows: where nothing is read it starts from 0
    looks: bool  # whether a step says where it looked


class Graphs(NamedTuple):
    """Two ONNX files and the plan. A language model reads nothing: it has only a step."""

    begin: bytes | None
    step: bytes
    plan: Plan


class _Taken(NamedTuple):
    """A model taken apart for one source."""

    given: list[Tensor]  # the source
    fixed: Known  # all that a step could want to know of it
    state: Standing  # where it starts

    @property
    def known(self) -> list[Tensor]:
        """The tensors of `fixed`, each once."""
        return list({id(leaf): leaf for leaf in leaves(self.fixed)}.values())


def _take(model: Model, source: Source) -> _Taken:
    enc = model.encoder(source)
    return _Taken(leaves(source), model.known(enc, source), model.start(enc))


class _Begin(nn.Module):
    """Reads a source; gives the chosen ones of its tensors."""

    def __init__(self, model: Model, like: Source, chosen: Sequence[int]) -> None:
        super().__init__()
        self.model, self.like, self.chosen = model, like, chosen

    def forward(self, given: list[Tensor]) -> list[Tensor]:
        taken = _take(self.model, rebuild(self.like, given))
        every = [*leaves(taken.fixed), *leaves(taken.state)]
        return [every[i] for i in self.chosen]


class _Next(nn.Module):
    """One symbol further on K paths of each of B items."""

    def __init__(self, model: Model, taken: _Taken, idle: Sequence[bool]) -> None:
        super().__init__()
        self.model, self.taken, self.idle = model, taken, idle
        order = {id(leaf): place for place, leaf in enumerate(taken.known)}
        self.places = [order[id(leaf)] for leaf in leaves(taken.fixed)]

    def forward(self, tokens: Tensor, fixed: list[Tensor], state: list[Tensor]) -> list[Tensor]:
        paths = tokens.shape
        flat, travelling = tokens.flatten(), iter(state)
        before = [
            flat.new_zeros(len(flat), *leaf.shape[1:], dtype=leaf.dtype)
            if idle
            else next(travelling).flatten(0, 1)
            for leaf, idle in zip(leaves(self.taken.state), self.idle, strict=True)
        ]
        known = rebuild(self.taken.fixed, [fixed[i] for i in self.places])
        step = self.model.advance(flat, rebuild(self.taken.state, before), known)
        after = zip(leaves(step.state), self.idle, strict=True)
        shown: list[Any] = [step.log_probs, *(leaf for leaf, idle in after if not idle)]
        shown += [] if step.weights is None else [step.weights]
        return [tensor.unflatten(0, paths) for tensor in shown]


def graphs(model: Model, names: Sequence[str], examples: tuple[Source, Source]) -> Graphs:
    """The graphs of a model whose source columns have the given names. Two examples that differ in
    their number of items and in all their lengths show what stays free.
    """
    model = model.eval()
    with torch.no_grad():
        one, other = (_take(model, source) for source in examples)
        still = _still(model, one)
        inputs = [f"{name}{part}" for name in names for part in ("", "_mask")]
        step, fixed, looks = _step(model, (one, other), still, inputs)
        places = [place for place, idle in enumerate(still) if not idle]
        moving = [leaves(one.state)[place] for place in places]
        begin, origins = None, [""] * len(moving)
        if names:
            begin, origins = _begin(model, examples, (one, other), inputs, fixed, moving)
    shapes = [
        [a if a == b else 0 for a, b in zip(leaf.shape[1:], again.shape[1:], strict=True)]
        for leaf, again in zip(moving, [leaves(other.state)[p] for p in places], strict=True)
    ]
    return Graphs(begin, step, Plan(inputs, list(fixed), origins, shapes, looks))


def _still(model: Model, taken: _Taken) -> list[bool]:
    """Which leaves of the state say nothing: empty ones, and zeros that no step changes."""
    tokens = torch.ones(len(taken.fixed.enc.mask), dtype=torch.long)
    after = model.advance(tokens, taken.state, taken.fixed).state
    pairs = zip(leaves(taken.state), leaves(after), strict=True)
    return [not old.numel() or (new is old and not old.any()) for old, new in pairs]


def _step(
    model: Model, both: tuple[_Taken, _Taken], still: list[bool], inputs: list[str]
) -> tuple[bytes, dict[str, Tensor], bool]:
    """The second graph; what it reads of the source, by name; whether it says where it looked."""
    one = both[0]
    given = {id(leaf): name for leaf, name in zip(one.given, inputs, strict=False)}
    known = [given.get(id(leaf), f"fixed_{i}") for i, leaf in enumerate(one.known)]
    module = _Next(model, one, still)
    cases = [tuple(_case(taken, still, paths)) for taken, paths in zip(both, PATHS, strict=True)]
    states = [f"state_{i}" for i in range(len(cases[0][2]))]
    looks = len(module(*cases[0])) > 1 + len(states)
    outputs = ["log_probs", *(f"next_{name}" for name in states), *["weights"] * looks]
    graph = _exported(module, cases, ["tokens", *known, *states], outputs)
    used = {value.name for value in graph.inputs if value.uses()}
    for value in [value for value in graph.inputs if value.name not in used]:
        graph.inputs.remove(value)
    fixed = {name: leaf for name, leaf in zip(known, one.known, strict=True) if name in used}
    return _bytes(graph), fixed, looks


def _case(taken: _Taken, still: list[bool], paths: int) -> list[Any]:
    """What a step is given: symbols (B, K), the source, a state (B, K, ...)."""
    items = len(taken.fixed.enc.mask)
    tokens = torch.ones(items, paths, dtype=torch.long)
    moving = [leaf for leaf, idle in zip(leaves(taken.state), still, strict=True) if not idle]
    spread = [leaf.unsqueeze(1).repeat_interleave(paths, 1) for leaf in moving]
    return [tokens, taken.known, spread]


def _begin(
    model: Model,
    examples: tuple[Source, Source],
    both: tuple[_Taken, _Taken],
    inputs: list[str],
    fixed: dict[str, Tensor],
    moving: list[Tensor],
) -> tuple[bytes, list[str]]:
    """The first graph, and what it calls each leaf of the state."""
    one = both[0]
    names = {id(leaf): name for name, leaf in fixed.items() if name not in inputs}
    for place, leaf in enumerate(moving):
        names.setdefault(id(leaf), f"start_{place}")
    every = [*leaves(one.fixed), *leaves(one.state)]
    places = {id(leaf): place for place, leaf in enumerate(every)}
    module = _Begin(model, examples[0], [places[i] for i in names])
    graph = _exported(module, [(taken.given,) for taken in both], inputs, list(names.values()))
    return _bytes(graph), [names[id(leaf)] for leaf in moving]


def _exported(
    module: nn.Module, cases: Sequence[Any], inputs: Sequence[str], outputs: Sequence[str]
) -> Any:
    """The graph of a module. What differs between the cases stays free."""
    with _hushed():
        traced = torch.export.export(
            module, tuple(cases[0]), dynamic_shapes=_free(*cases), strict=True
        )
        program = torch.onnx.export(
            traced,
            opset_version=OPSET,
            input_names=list(inputs),
            output_names=list(outputs),
            custom_translation_table=table(),
            verbose=False,
        )
    assert program is not None
    return program.model.graph


def _free(one: Any, other: Any) -> Any:
    """Of all tensors, the dimensions that stay free: those that differ between two cases."""
    if not isinstance(one, Tensor):
        found = [_free(a, b) for a, b in zip(one, other, strict=True)]
        return tuple(found) if isinstance(one, tuple) else found
    sizes = enumerate(zip(one.shape, other.shape, strict=True))
    return {place: torch.export.Dim.DYNAMIC for place, (a, b) in sizes if a != b}


def _bytes(graph: Any) -> bytes:
    """The graph as a file, without what the exporter notes for itself."""
    import onnx_ir

    for value in (v for node in graph.all_nodes() for v in node.outputs):
        value.shape = None if not value.is_graph_output() else value.shape
    for thing in (graph, *graph.inputs, *graph.initializers.values(), *graph.all_nodes()):
        thing.metadata_props.clear()
        thing.doc_string = None
    for node in graph.all_nodes():
        for value in node.outputs:
            value.metadata_props.clear()
    model = onnx_ir.Model(graph, ir_version=10, producer_name="dragoman")
    return onnx_ir.to_proto(model).SerializeToString()  # type: ignore[no-any-return]


@contextlib.contextmanager
def _hushed() -> Iterator[None]:
    """The exporter talks to its own developers; nothing of that is news to anybody here."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
    logger.setLevel(level)
