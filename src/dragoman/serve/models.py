"""The models of a server: each with its name, its queue, and what clients may know of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.decode import Asked
from dragoman.errors import UserError
from dragoman.predict import Predictor
from dragoman.predict import load as load_predictor
from dragoman.serve import runs
from dragoman.serve.batcher import Batcher
from dragoman.serve.counters import Counters
from dragoman.serve.schema import Wish
from dragoman.serve.settings import Settings


class Served:
    """A model folder that answers."""

    def __init__(
        self,
        name: str,
        folder: Path,
        predictor: Predictor,
        settings: Settings,
        counters: Counters,
        watched: bool = False,
    ) -> None:
        self.name, self.folder, self.watched = name, folder, watched
        self.version = runs.version(folder)
        self.batcher = Batcher(predictor, settings, counters, name)

    @property
    def predictor(self) -> Predictor:
        return self.batcher.predictor

    def refresh(self) -> bool:
        """Take the weights of a later checkpoint up, if there are any."""
        now = runs.version(self.folder)
        if not self.watched or now == self.version:
            return False
        try:
            self.batcher.replace(runs.latest(self.folder))
        except UserError:  # half written, or gone already: at the next look
            return False
        self.version = now
        return True

    def asked(self, wish: Wish) -> Asked:
        """A client's wish as the predictor takes it."""
        texts = (wish.texts,) if isinstance(wish.texts, str) else tuple(wish.texts)
        count = max(len(self.predictor.fields.sources), 1)
        if len(texts) != count:
            raise UserError(f"an input of {len(texts)} texts, this model reads {count}")
        prefix = wish.prefix if isinstance(wish.prefix, str) else tuple(wish.prefix)
        return Asked(texts, tuple(wish.require), prefix)

    def about(self) -> dict[str, Any]:
        """What clients may know."""
        one, config = self.predictor, self.predictor.config
        options = config.search
        return {
            "name": self.name,
            "recipe": config.recipe,
            "parameters": sum(p.numel() for p in one.model.parameters()),
            "columns": [
                {"name": name, "kind": getattr(field.spec, "kind", "text")}
                for name, field in one.fields.sources.items()
            ],
            "writes": getattr(one.fields.target.spec, "units", None) or "points",
            "ends": one.model.decoder.ends,
            "reverse": bool(getattr(one.fields.target.spec, "reverse", False)),
            "search": {"beam": options.beam, "sample": options.sample},
            "watched": self.watched,
            "version": self.version,
        }


class Models:
    """All models of a server, by name."""

    def __init__(self, served: Sequence[Served]) -> None:
        self.served = {one.name: one for one in served}

    def find(self, name: str | None) -> Served | None:
        return self.served.get(name) if name else next(iter(self.served.values()))

    def close(self) -> None:
        for one in self.served.values():
            one.batcher.close()


def open_models(
    folders: Sequence[Path],
    settings: Settings,
    counters: Counters,
    device: str = "cpu",
    watched: bool = False,
) -> Models:
    """Load model folders; each goes by its folder's name, the second of a name gets a number."""
    names: list[str] = []
    served = []
    for folder in folders:
        plain = folder.resolve().name or "model"
        taken = sum(name == plain or name.startswith(f"{plain}-") for name in names)
        names.append(f"{plain}-{taken + 1}" if plain in names else plain)
        predictor = runs.latest(folder) if watched else load_predictor(folder, device)
        served.append(Served(names[-1], folder, predictor, settings, counters, watched))
    return Models(served)
