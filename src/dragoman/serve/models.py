"""The models of a server: each with its name, its queue, and what clients may know of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.data.copying import begin_with
from dragoman.decode import Asked, Query
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
        """A client's wish as the predictor takes it. Names of files are not taken: they would be
        those of this machine.
        """
        fields = self.predictor.fields.sources.items()
        if files := [name for name, field in fields if takes_file(field)]:
            raise UserError(f"this model reads a file as its {files[0]}: send it as the body")
        texts = (wish.texts,) if isinstance(wish.texts, str) else tuple(wish.texts)
        return self._checked(Asked(texts, tuple(wish.require), _begun(wish)))

    def seen(self, wish: Wish, content: bytes) -> Query:
        """The same where a column is the content of a file that the client has sent."""
        fields = self.predictor.fields
        readers: list[Any] = list(fields.sources.values())
        media = [field for field in readers if takes_file(field)]
        if len(media) != 1:
            raise UserError(f"a file was sent, this model reads {len(media)}")
        rest = [wish.texts] if isinstance(wish.texts, str) else list(wish.texts)
        texts = list(rest)
        texts.insert(readers.index(media[0]), "")
        asked = self._checked(Asked(tuple(texts), tuple(wish.require), _begun(wish)))
        ids = [
            field.decode(content) if takes_file(field) else field.encode(text)
            for field, text in zip(readers, asked.texts, strict=True)
        ]
        return Query(asked, ids, (), begin_with(asked.prefix, (), fields.target))

    def shown(self, query: Query) -> list[dict[str, Any]]:
        """What the model sees of a file, as it is sent."""
        return [one.tree() for one in self.predictor.seen(query) if one.kind != "points"]

    def _checked(self, asked: Asked) -> Asked:
        count = max(len(self.predictor.fields.sources), 1)
        if len(asked.texts) != count:
            raise UserError(f"an input of {len(asked.texts)} texts, this model reads {count}")
        return asked

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


def takes_file(field: Any) -> bool:
    """Whether a column is of files: pictures, sounds, clips."""
    return bool(getattr(field, "names_files", False))


def _begun(wish: Wish) -> str | tuple[str, ...]:
    return wish.prefix if isinstance(wish.prefix, str) else tuple(wish.prefix)


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
