"""All kinds of columns. A new sense is one class and one line here, and one of each in
`encoders`.
"""

from typing import Annotated, Any

from dragoman.data.fields import Field, TextField
from dragoman.data.points import PointsField
from dragoman.spec import Kinds

FIELDS: dict[str, type[Field]] = {"text": TextField, "points": PointsField}
FieldSpec = Annotated[Any, Kinds(FIELDS, usual="text")]  # the options of a column of any kind
