"""Pictures of what models do, for papers and talks. Text in them is anyone's: shown, never
interpreted.
"""

from dragoman.plots.aligned import STYLES, alignment
from dragoman.plots.canvas import Picture
from dragoman.plots.confusion import confusion
from dragoman.plots.curves import learning
from dragoman.plots.lengths import by_length
from dragoman.plots.maps import sentence_map
from dragoman.plots.sights import over_frames, over_picture, over_sound
from dragoman.plots.tours import tours

__all__ = [
    "STYLES",
    "Picture",
    "alignment",
    "by_length",
    "confusion",
    "learning",
    "over_frames",
    "over_picture",
    "over_sound",
    "sentence_map",
    "tours",
]
