"""Where the time of a recorded search on a GPU goes: its graphs; its kernels, the longest first.
A kernel that begins before the one before it has ended is shown with the time in which it waits.

python benchmarks/speed/profile_search.py [BATCH ...]
"""

import statistics
import sys
from collections.abc import Callable

import torch
from gpu_decode import M30K, Size, model_of, ours, seconds, source_of
from torch.profiler import ProfilerActivity, profile

from dragoman.device import pick_device
from dragoman.model import Model
from dragoman.search.recorded import STEPS, Recorded


def main() -> None:
    pick_device("cuda")
    for batch in sys.argv[1:] or ["1", "64", "256"]:
        show(M30K._replace(batch=int(batch)))


def parts(model: Model, steps: int) -> dict[str, float]:
    """Microseconds on the device until graphs are through: the first, all steps, the last."""
    with torch.inference_mode():
        rails = model.rails()
        assert rails is not None
        search = next(one for one in rails.graphs.values() if isinstance(one, Recorded))

    def walk() -> None:
        search.start()
        for _ in range(steps // STEPS):
            search.steps()

    def whole() -> None:
        walk()
        search.finish()

    return {
        name: taken(work)
        for name, work in (("start", search.start), ("steps", walk), ("end", whole))
    }


def taken(work: Callable[[], object]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(100):
        torch.cuda.synchronize()
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * begin.elapsed_time(end))
    return statistics.median(times)


def show(size: Size) -> None:
    model, source = model_of(size), source_of(size)
    model.search_in("bf16")
    alone = seconds(lambda: ours(model, source, size), 20)
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        ours(model, source, size)
    found = sorted(
        ((e.self_device_time_total, e.count, e.key) for e in seen.key_averages()), reverse=True
    )
    whole, many = sum(us for us, _, _ in found), sum(count for _, count, _ in found)
    print(f"batch {size.batch}: {1e3 * alone:.3f} ms; {many} kernels, {whole / 1e3:.3f} ms")
    print(", ".join(f"{name} after {us:.0f} us" for name, us in parts(model, size.length).items()))
    for us, count, name in found[:14]:
        print(f"{us:9.1f} us {count:5d} x {us / count:7.2f}  {name[:80]}")


if __name__ == "__main__":
    main()
