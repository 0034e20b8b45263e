"""Recipes: named configs, one YAML file each, with where they come from."""

from pathlib import Path
from typing import Any, NamedTuple

import yaml

from dragoman.errors import UserError, did_you_mean

FOLDER = Path(__file__).parent
Tree = dict[str, Any]


class Recipe(NamedTuple):
    """A named config, with where it comes from."""

    name: str
    paper: str
    line: str
    sources: tuple[int, ...]  # sizes of the alphabets for the parameter count that is shown
    target: int
    tree: Tree


def recipe_names() -> list[str]:
    """Names of all recipes.

    >>> "bahdanau2015" in recipe_names()
    True
    """
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def recipe(name: str) -> Recipe:
    """A recipe by name; what it does not say it takes from its `base`.

    >>> recipe("bahdanau2015").paper
    'Bahdanau, Cho and Bengio 2015'
    """
    if name not in recipe_names():
        raise UserError(
            f"there is no recipe '{name}'{did_you_mean(name, recipe_names())}; "
            "`dragoman recipes` lists them"
        )
    tree = read_yaml(FOLDER / f"{name}.yaml")
    about, base = tree.pop("about", {}), tree.pop("base", None)
    if base:
        parent = recipe(base)
        tree = merge(parent.tree, tree)
        known = {"paper": parent.paper, "sources": parent.sources, "target": parent.target}
        about = known | about
    return Recipe(
        name,
        about["paper"],
        about["line"],
        tuple(about["sources"]),
        about["target"],
        tree | {"recipe": name},
    )


def read_yaml(path: Path) -> Tree:
    """A YAML file that holds a mapping."""
    try:
        tree = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {str(error.strerror).lower()}; check the path") from None
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())}") from None
    if not isinstance(tree, dict):
        raise UserError(f"{path}: a config is a mapping of names to values")
    return tree


def merge(below: Tree, above: Tree) -> Tree:
    """Two trees as one; where both speak, `above` wins. A part of another `kind` is another part:
    it takes nothing from the one below.

    >>> merge({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}})
    {'a': {'b': 3, 'c': 2}}
    >>> merge({"a": {"kind": "x", "b": 1}}, {"a": {"kind": "y"}})
    {'a': {'kind': 'y'}}
    """
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        deep = isinstance(old, dict) and isinstance(value, dict) and _same_kind(old, value)
        result[key] = merge(old, value) if deep else value  # type: ignore[arg-type]
    return result


def _same_kind(below: Tree, above: Tree) -> bool:
    return "kind" not in above or above["kind"] == below.get("kind", above["kind"])
