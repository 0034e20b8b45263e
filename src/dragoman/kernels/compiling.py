"""C sources to a library, by the machine's own compiler.

It is kept in the user's cache folder under a name that tells source, compiler and processor apart.
"""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

SOURCES = [
    Path(__file__).with_name(f"{name}.c")
    for name in ("attention", "beams", "calls", "cells", "scores", "still")
]
HEADERS = [
    Path(__file__).with_name(f"{name}.h")
    for name in ("native", "routines", "still", "lanes", "tiles", "laying")
]
FLAGS = ["-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-std=gnu11"]
SHARED = ["-shared", "-fPIC"]
THREADS = ["-fopenmp"]  # simd loops and threads; where a compiler lacks it, the former alone
WIDE = ["-mprefer-vector-width=512"]  # where the processor has it; other compilers refuse it
PATIENCE = 60  # seconds for a compiler


def compiled() -> Path:
    """The library, made anew where it is not there yet."""
    compiler = _compiler()
    place = _folder() / f"native-{_mark(compiler)}.so"
    if not place.exists():
        _compile(compiler, place)
    return place


def _compiler() -> list[str]:
    wanted = shlex.split(os.environ.get("CC", ""))
    for name in [wanted[:1], ["cc"], ["gcc"], ["clang"]]:
        if name and (found := shutil.which(name[0])):
            return [found, *wanted[1:]] if name == wanted[:1] else [found]
    raise OSError("there is no C compiler (cc, gcc or clang)")


def _folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(home) / "dragoman" / "native"


def _mark(compiler: list[str]) -> str:
    """What tells this source, compiler and processor from others."""
    about = os.stat(compiler[0])
    told = [source.read_text("utf-8") for source in (*SOURCES, *HEADERS)]
    told += [*compiler, *FLAGS, *WIDE, str(about.st_size), str(about.st_mtime)]
    told += [platform.machine(), platform.processor(), torch.backends.cpu.get_cpu_capability()]
    cpu = Path("/proc/cpuinfo")
    if cpu.exists():
        lines = cpu.read_text("utf-8", "replace").splitlines()
        told += sorted(
            {one for one in lines if one.startswith(("model name", "flags", "Features"))}
        )
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


def _compile(compiler: list[str], place: Path) -> None:
    """Into a file of its own first: others may be at it as well."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        made = Path(folder) / place.name
        for more in ([*WIDE, *THREADS], THREADS, ["-fopenmp-simd"], []):
            command = [
                *compiler,
                *FLAGS,
                *more,
                *SHARED,
                *map(str, SOURCES),
                "-o",
                str(made),
                "-lm",
            ]
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=PATIENCE
            )
            if done.returncode == 0:
                os.replace(made, place)
                return
    raise OSError(f"{compiler[0]} failed: {done.stderr.strip().splitlines()[-1:]}")
