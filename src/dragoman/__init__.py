"""Dragoman: give it pairs, get a model.

>>> import dragoman
>>> sorted(dragoman.__all__)[:2]
['DragomanError', 'Prediction']
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.errors import DragomanError, UserError
    from dragoman.estimator import Transducer
    from dragoman.predict import Prediction, Predictor, Scored, load
    from dragoman.recipes import recipe, recipe_names
    from dragoman.training import train

__version__ = "0.1.0"
__all__ = [
    "DragomanError",
    "Prediction",
    "Predictor",
    "Scored",
    "Transducer",
    "UserError",
    "load",
    "recipe",
    "recipe_names",
    "train",
]

_ROOMS = {
    "DragomanError": "errors",
    "UserError": "errors",
    "Prediction": "predict",
    "Predictor": "predict",
    "Scored": "predict",
    "Transducer": "estimator",
    "load": "predict",
    "recipe": "recipes",
    "recipe_names": "recipes",
    "train": "training",
}


def __getattr__(name: str) -> Any:
    """Rooms are opened when something of theirs is first used: importing dragoman does not import
    torch.
    """
    from importlib import import_module

    if name not in _ROOMS:
        raise AttributeError(f"module 'dragoman' has no attribute '{name}'")
    return getattr(import_module(f"dragoman.{_ROOMS[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
