"""All kinds of columns. A new sense is one class and one line here, and one of each in
`encoders`.
"""

from typing import Annotated, Any

from dragoman.data.fields import Field, TextField
from dragoman.data.pictures import ImageField
from dragoman.data.points import PointsField
from dragoman.data.sound import SoundField
from dragoman.data.video import VideoField
from dragoman.spec import Kinds

FIELDS: dict[str, type[Field]] = {
    "text": TextField,
    "image": ImageField,
    "points": PointsField,
    "sound": SoundField,
    "video": VideoField,
}
FieldSpec = Annotated[Any, Kinds(FIELDS, usual="text")]  # the options of a column of any kind


def names_files(spec: Any) -> bool:
    """Whether the values of a column are names of files.

    >>> names_files(TextField.options())
    False
    """
    return FIELDS[spec.kind].names_files
