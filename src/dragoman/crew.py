"""One run in many processes: who takes part, what they tell each other. torch.distributed does the
work; the processes are started by torchrun, or by srun under SLURM.
"""

import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

from dragoman.errors import DragomanError

PATIENCE = timedelta(hours=2)  # of those who wait while the first process reads or evaluates
GRACE = 15.0  # seconds that a process has to leave after a signal, whatever it is waiting for
_saving = threading.RLock()  # held while a checkpoint is written, or waited for


class Crew(NamedTuple):
    """The processes of a run, as one of them sees them. The first one reads, judges and writes."""

    rank: int = 0
    size: int = 1
    local: int = 0  # among the processes of this machine

    @property
    def writes(self) -> bool:
        return self.rank == 0

    def device(self, name: str) -> str:
        """The device of this process, where `name` leaves a choice.

        >>> Crew().device("auto"), Crew(1, 2, 1).device("cpu")
        ('auto', 'cpu')
        """
        if self.size == 1 or name not in ("auto", "cuda") or not torch.cuda.is_available():
            return name
        return f"cuda:{self.local % torch.cuda.device_count()}"

    def share(self, rows: Any) -> Any:
        """Which of a batch's rows this process takes: every n-th, as lengths grow along a batch.

        >>> Crew(1, 2).share([4, 5, 6])
        [5]
        """
        return rows[self.rank :: self.size]

    def sums(self, *values: float) -> list[float]:
        """Numbers, each summed over all processes."""
        if self.size == 1:
            return list(values)
        numbers = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(numbers)
        found: list[float] = numbers.tolist()
        return found

    def any(self, true: bool) -> bool:
        """Whether something is true of one of the processes at least."""
        return bool(self.sums(float(true))[0])

    def tell(self, value: Any) -> Any:
        """What the first process has to say to all (data that JSON can hold)."""
        if self.size == 1:
            return value
        text = json.dumps(value).encode() if self.writes else b""
        length = int(self.sums(float(len(text)))[0])
        told = torch.zeros(length, dtype=torch.uint8)
        if self.writes:
            told.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
        dist.broadcast(told, 0)
        return json.loads(told.numpy().tobytes())

    def gather(self, mine: Tensor) -> Tensor:
        """The rows of all processes as one, in the order from which `share` took them."""
        if self.size == 1:
            return mine
        total = int(self.sums(float(len(mine)))[0])
        rows = torch.zeros(total, *mine.shape[1:], dtype=mine.dtype)
        rows[self.rank :: self.size] = mine.cpu()
        dist.all_reduce(rows)
        return rows.to(mine.device)

    def wait(self) -> None:
        """Until all processes are here."""
        self.any(True)

    def join(self, module: nn.Module) -> nn.Module:
        """The module, whose gradients are from now on the mean over all processes."""
        if self.size == 1:
            return module
        return nn.parallel.DistributedDataParallel(module)


ALONE = Crew()


def places(env: Mapping[str, str]) -> dict[str, str]:
    """What torchrun says about a process in its environment; what srun says, in the same words.

    >>> places({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"})["WORLD_SIZE"]
    '2'
    >>> slurm = {"SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_STEP_NUM_TASKS": "4"}
    >>> slurm |= {"SLURM_STEP_NODELIST": "gpu[07-08],cpu1", "SLURM_JOB_ID": "4711"}
    >>> places(slurm)["RANK"], places(slurm)["MASTER_ADDR"], places({})
    ('3', 'gpu07', {})
    """
    if {"RANK", "WORLD_SIZE"} <= env.keys():
        return {"LOCAL_RANK": "0"} | {
            name: env[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK") if name in env
        }
    if {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"} <= env.keys():
        first = first_of(env.get("SLURM_STEP_NODELIST", socket.gethostname()))
        job = int(env.get("SLURM_JOB_ID", "0"))
        return {
            "RANK": env["SLURM_PROCID"],
            "WORLD_SIZE": env["SLURM_STEP_NUM_TASKS"],
            "LOCAL_RANK": env.get("SLURM_LOCALID", "0"),
            "MASTER_ADDR": env.get("MASTER_ADDR", first),
            "MASTER_PORT": env.get("MASTER_PORT", str(20_000 + job % 20_000)),
        }
    return {}


def first_of(nodes: str) -> str:
    """The first host of a list as SLURM writes them.

    >>> first_of("gpu[07-08,11],cpu1"), first_of("n1,n[2-3]"), first_of("rack[0-1]n[3,5]-ib")
    ('gpu07', 'n1', 'rack0n3-ib')
    """
    whole = re.match(r"([^,[]|\[[^]]*\])*", nodes)
    return re.sub(r"\[([^],-]*)[^]]*\]", r"\1", whole[0] if whole else nodes)


def restarted(env: Mapping[str, str]) -> bool:
    """Whether these processes were started again after a failure, so that a run has to go on.

    >>> restarted({"TORCHELASTIC_RESTART_COUNT": "1"}), restarted({})
    (True, False)
    """
    counts = (env.get(n, "0") for n in ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"))
    return any(count not in ("", "0") for count in counts)


@contextmanager
def crewed() -> Iterator[Crew]:
    """The processes that were started together, for as long as a run lasts."""
    found = places(os.environ)
    crew = Crew(*(int(found.get(n, d)) for n, d in zip(_NAMES, ("0", "1", "0"), strict=True)))
    if crew.size == 1:
        yield ALONE
        return
    os.environ.update(found)
    if torch.cuda.is_available():
        torch.cuda.set_device(crew.local % torch.cuda.device_count())
    engine = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        with _deadline():
            store = _store(os.environ)
            dist.init_process_group(
                engine, store=store, rank=crew.rank, world_size=crew.size, timeout=PATIENCE
            )
            yield crew
        dist.destroy_process_group()
    except (dist.DistError, RuntimeError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        said = str(error).splitlines()[0][:200]
        raise DragomanError(
            f"process {crew.rank} of {crew.size}: lost touch with the others ({said}); "
            "the one that failed first says why"
        ) from error


def _store(env: Mapping[str, str]) -> Any:
    """Where processes find each other. torchrun keeps the store of an attempt that failed, with the
    addresses of the dead, for the next one; so every attempt has a corner of its own. (On several
    machines attempts are counted apart: there, torchrun must not share its store.)
    """
    store, _, _ = next(rendezvous("env://", timeout=PATIENCE))
    count = env.get("TORCHELASTIC_RESTART_COUNT", "0")
    alone = env.get("GROUP_WORLD_SIZE", "1") == "1"
    return dist.PrefixStore(f"attempt-{count}", store) if alone else store  # type: ignore[attr-defined]


_NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK")


@contextmanager
def unhurried() -> Iterator[None]:
    """While a checkpoint is written, or waited for, `_deadline` waits, too."""
    with _saving:
        yield


@contextmanager
def _deadline() -> Iterator[None]:
    """A process that waits for one that has died does not hear signals. It ends all the same."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    hear, ring = socket.socketpair()
    ring.setblocking(False)
    before = signal.set_wakeup_fd(ring.fileno(), warn_on_full_buffer=False)

    def watch() -> None:
        for number in iter(lambda: hear.recv(1), b""):
            if number[0] in (signal.SIGTERM, signal.SIGINT):
                time.sleep(GRACE)
                with _saving:
                    pass
                time.sleep(1)  # to leave by itself
                os._exit(128 + number[0])

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        ring.close()
