"""Ray Data as the engine of decoding: pieces of the inputs are dealt to workers on any machines
that see one disk. A worker that dies is replaced, and only its piece is done again.
"""

import logging
from pathlib import Path
from typing import Any

from dragoman.errors import UserError
from dragoman.output import unanswered
from dragoman.predict import load
from dragoman.shards import Shard, Task, finished, merge, remove, write_shard

PIECES = 4  # for each worker, so that the slowest is not waited for long


class Worker:
    """One process of the cluster: it loads the model once and answers piece after piece."""

    def __init__(self, task: Task, output: Path, pieces: int, device: str, batch_size: int) -> None:
        import torch

        if device == "cpu":
            torch.set_num_threads(1)
        self.task, self.output, self.pieces, self.batch_size = task, output, pieces, batch_size
        self.predictor = load(task.model, device, **task.helpers)
        if task.on_bad != "error":
            self.predictor.on_bad = unanswered

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        shard = Shard(int(row["id"]) + 1, self.pieces)
        if not finished(self.task, shard.path(self.output), shard):
            write_shard(self.task, self.output, shard, self.predictor, self.batch_size)
        return row


def on_ray(task: Task, output: Path, workers: int, device: str, batch_size: int) -> int:
    """Answer all inputs on the Ray cluster that this process sees (RAY_ADDRESS), or on a small one
    of its own; how many there were.
    """
    try:
        import ray
        import ray.data
    except ImportError:
        raise UserError("--on ray needs Ray: pip install 'dragoman[ray]'") from None
    pieces, output = workers * PIECES, output.absolute()
    task = task._replace(model=task.model.absolute(), inputs=str(Path(task.inputs).absolute()))
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = ray.data.range(pieces, override_num_blocks=pieces)
    done = rows.map(
        Worker,  # type: ignore[arg-type]
        fn_constructor_args=(task, output, pieces, device, batch_size),
        concurrency=workers,
        num_cpus=1,
        num_gpus=1 if device.startswith("cuda") else 0,
    )
    done.materialize()
    total, _ = merge(output)
    remove(output)
    return total
