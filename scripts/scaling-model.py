#!/usr/bin/env python3
"""Step times of data-parallel training on many nodes, by the model of docs/scaling.md.

usage: scaling-model.py --flops F [--latency S] [--tokens T] [--fit FILE] [--nodes 8,16,...] [--gigabits 10,100]

F: floating-point operations per second that one node reaches in a training step (6 * parameters * tokens / seconds,
from a run of one process). FILE: the output of bench_process_sums, from which latency and bandwidth are fitted, and
printed beside the measurements; without it, --latency (per message) and --gigabits are assumed.
"""
import argparse

BUCKET = 4 << 20
# name: parameters, rows and columns of the embedding (a bucket of its own), whether it is the output as well
MODELS = {"GPT-2 124M": (124_439_808, 50257, 768, True), "LLaMA 1.1B": (1_100_048_384, 32000, 2048, False)}
DISTINCT = 4000  # different tokens that a node has in a step: as 16,384 of English film reviews have


def sum_seconds(size, nodes, latency, bandwidth):
    """A bucket of `size` bytes: N - 1 messages twice, and 2 (N - 1) / N of the bytes."""
    return 2 * (nodes - 1) * latency + 2 * (nodes - 1) / nodes * size / bandwidth


def buckets_of(parameters, table):
    rest = 4 * (parameters - table)
    return [BUCKET] * (rest // BUCKET) + [rest % BUCKET] + [4 * table]


def step(model, nodes, latency, bandwidth, flops, tokens):
    """Seconds of a step, and the hidden share of its communication."""
    parameters, rows, columns, tied = model
    compute = 6 * parameters * tokens / flops
    sizes = buckets_of(parameters, rows * columns)
    communication = sum(sum_seconds(size, nodes, latency, bandwidth) for size in sizes)
    # The last bucket to be complete has nothing left to hide behind: the embedding's. A tied one sets off first, and
    # the rows of its lookups come last: all to all, or, where they are many, as a whole table.
    last = sum_seconds(sizes[-1], nodes, latency, bandwidth)
    if tied:
        late = min(DISTINCT, tokens) * (8 + 4 * columns)
        if nodes * late <= 2 * sizes[-1]:
            last = (nodes - 1) * (latency + late / bandwidth)
        communication += last
    exposed = max(last, communication - compute * 2 / 3)
    return compute + exposed, 1 - exposed / communication


def fit(path):
    """Least squares of relative errors: seconds = latency * messages + bytes / bandwidth."""
    rows = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if len(words) == 3 and words[0].isdigit():
                n, size, seconds = int(words[0]), int(words[1]), float(words[2])
                rows.append((2 * (n - 1), 2 * (n - 1) / n * size, seconds, n, size))
    a11 = sum((r[0] / r[2]) ** 2 for r in rows)
    a12 = sum(r[0] * r[1] / r[2] ** 2 for r in rows)
    a22 = sum((r[1] / r[2]) ** 2 for r in rows)
    b1 = sum(r[0] / r[2] for r in rows)
    b2 = sum(r[1] / r[2] for r in rows)
    determinant = a11 * a22 - a12 * a12
    latency = (b1 * a22 - b2 * a12) / determinant
    per_byte = (a11 * b2 - a12 * b1) / determinant
    print(f"fitted: {latency * 1e6:.1f} us per message, {1e-9 / per_byte:.2f} GB/s")
    for _, _, seconds, n, size in rows:
        model = sum_seconds(size, n, latency, 1 / per_byte)
        print(f"{n:4} processes {size:10} bytes  measured {seconds * 1e3:9.3f} ms  model {model * 1e3:9.3f} ms")
    return latency


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--flops", type=float, required=True)
    parser.add_argument("--latency", type=float, default=30e-6)
    parser.add_argument("--tokens", type=int, default=16384, help="of a node in a step")
    parser.add_argument("--fit")
    parser.add_argument("--nodes", default="8,16,32,64,128,256,512,1024")
    parser.add_argument("--gigabits", default="10,100")
    given = parser.parse_args()
    latency = fit(given.fit) if given.fit else given.latency
    for name, model in MODELS.items():
        for gigabits in map(float, given.gigabits.split(",")):
            print(f"\n{name}, {gigabits:g} Gb/s, {given.tokens} tokens and {given.flops:.3g} flop/s a node")
            alone = 6 * model[0] * given.tokens / given.flops
            for nodes in map(int, given.nodes.split(",")):
                seconds, hidden = step(model, nodes, latency, gigabits * 1e9 / 8, given.flops, given.tokens)
                print(f"{nodes:5} nodes  {seconds:8.3f} s a step  hidden {max(hidden, 0):4.0%}  efficiency {alone / seconds:4.0%}")


if __name__ == "__main__":
    main()
