"""Where the time of a recorded search on a GPU goes: its kernels, the longest first.

python benchmarks/speed/profile_search.py [BATCH ...]
"""

import sys

from gpu_decode import M30K, Size, model_of, ours, seconds, source_of
from torch.profiler import ProfilerActivity, profile

from dragoman.device import pick_device


def main() -> None:
    pick_device("cuda")
    for batch in sys.argv[1:] or ["1", "64", "256"]:
        show(M30K._replace(batch=int(batch)))


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
    for us, count, name in found[:14]:
        print(f"{us:9.1f} us {count:5d} x {us / count:7.2f}  {name[:80]}")


if __name__ == "__main__":
    main()
