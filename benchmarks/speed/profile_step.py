"""Where the time of a training step on a GPU goes: its kernels, the longest first.

python benchmarks/speed/profile_step.py [--plain] [--fp32]
"""

import sys

from torch.profiler import ProfilerActivity, profile
from train_step import M30K, Side, examples, text_model


def main() -> None:
    plain = "--plain" in sys.argv
    corpus, rows = examples(M30K, 1)
    precision = "fp32" if "--fp32" in sys.argv else "bf16"
    side = Side(text_model(M30K), "cuda", precision, plain)
    batch = side.stepper.prepare(corpus.batch(rows[0]))
    side.run([batch] * 6)
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        seconds, _ = side.run([batch])
    found = sorted(
        ((e.self_device_time_total, e.count, e.key) for e in seen.key_averages()), reverse=True
    )
    whole = sum(us for us, _, _ in found)
    many = sum(count for _, count, _ in found)
    print(f"{1000 * seconds:.2f} ms; kernels {whole / 1000:.2f} ms, {many} of them")
    for us, count, name in found[:30]:
        print(f"{us:9.1f} us {count:5d} x  {name[:90]}")


if __name__ == "__main__":
    main()
