#!/usr/bin/env python3
"""Writes the tables of docs/performance.md from a file of results.

    bench/peers/tables.py [RESULTS] [PAGE]     default: bench/peers/results.jsonl docs/performance.md

For each job and peer, the last result is used. The tables are between the page's `<!-- NAME -->` and `<!-- /NAME -->`.
"""
import json
import re
import statistics
import sys
from pathlib import Path

from jobs import JOBS

ROOT = Path(__file__).resolve().parent.parent.parent
GROUPS = {"attention": "attention-", "recurrent": "recurrent-", "products": "gemm-", "training": "train-", "encoding": "bert-",
          "decoding": "generate-", "translation": "translate-", "opening": "info-"}


def spread(values, digits=2):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def milliseconds(values):
    return f"{1e3 * statistics.median(values):.4g}"


def memory(count):
    return f"{count / 1e6:.0f}"


def row(result):
    job = JOBS[result["job"]]
    title = job.title + (", forward + backward" if "--backward" in job.heed else "")
    share = " or ".join(sorted(set(result["bound"])))
    if result["fraction"]:
        share = f"{100 * statistics.median(result['fraction']):.0f} % {share}"
    if result["backward_fraction"]:
        share += f" (backward {100 * statistics.median(result['backward_fraction']):.0f} %)"
    return (f"| {title} | {result['peer']} | {milliseconds(result['heed_s'])} | {milliseconds(result['peer_s'])} | "
            f"**{spread(result['ratio'])}** | {share} | {memory(result['heed_memory'])} / {memory(result['peer_memory'])} |")


def table(results):
    lines = ["| work | peer | heed, ms | peer, ms | ratio (least–most) | of heed's limit | peak memory, MB |",
             "|---|---|---|---|---|---|---|"]
    return "\n".join(lines + [row(result) for result in results])


def limits(results):
    gflops, gbps = ([peak for r in results for peak in r[key]] for key in ("peak_gflops", "peak_gbps"))
    threads = sorted({r["threads"] for r in results})
    revisions = sorted({r["revision"] for r in results})
    return (f"Measured at revision {', '.join(revisions)} with {', '.join(map(str, threads))} threads. The machine's limits "
            f"in the same runs: "
            f"{statistics.median(gflops):.0f} Gflop/s of f32 arithmetic ({min(gflops):.0f} to {max(gflops):.0f}) and "
            f"{statistics.median(gbps):.1f} GB/s read from memory ({min(gbps):.1f} to {max(gbps):.1f}).")


def main():
    results_file = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "bench/peers/results.jsonl"
    page = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs/performance.md"
    last = {}
    for line in results_file.read_text().splitlines():
        result = json.loads(line)
        last[result["job"], result["peer"]] = result
    order = [last[job, peer] for job in JOBS for peer in JOBS[job].peers if (job, peer) in last]
    parts = {name: table([r for r in order if r["job"].startswith(prefix)]) for name, prefix in GROUPS.items()}
    parts["limits"] = limits(order)
    text = page.read_text()
    for name, content in parts.items():
        text, count = re.subn(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", rf"\g<1>{content}\n\2", text, flags=re.S)
        if count != 1:
            raise SystemExit(f"{page}: expected <!-- {name} --> and <!-- /{name} --> once, got {count}")
    page.write_text(text)


main()
