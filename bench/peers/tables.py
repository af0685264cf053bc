#!/usr/bin/env python3
"""Writes the tables of docs/performance.md from a file of results.

    bench/peers/tables.py [RESULTS] [PAGE]     default: bench/peers/results.jsonl docs/performance.md

One table for each kind of processor (compare.py tells it), between the page's `<!-- peers -->` and `<!-- /peers -->`. For each
job and peer, the last result on that kind is used.
"""
import json
import re
import statistics
import sys
from pathlib import Path

from jobs import JOBS

ROOT = Path(__file__).resolve().parent.parent.parent
KINDS = ("AMX", "AVX-512", "AVX2", "AMX, held to AVX2", "AVX-512, held to AVX2", "portable")


def spread(values, digits=2):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def milliseconds(values):
    return f"{1e3 * statistics.median(values):.4g}"


def differing(times):
    """How much longer the longest is than the shortest."""
    return f"{100 * (max(times) / min(times) - 1):.0f} %"


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
            f"{differing(result['peer_s'])} | **{spread(result['ratio'])}** | {share} | "
            f"{memory(result['heed_memory'])} / {memory(result['peer_memory'])} |")


def texts_row(result):
    job = JOBS[result["job"]]
    ours, theirs = (f"{job.texts / statistics.median(result[key]):.0f}" for key in ("heed_s", "peer_s"))
    return (f"| {job.title} | {result['peer']} | {ours} | {theirs} | {differing(result['peer_s'])} | **{spread(result['ratio'])}** | "
            f"{memory(result['heed_memory'])} / {memory(result['peer_memory'])} |")


def table(results):
    of_texts = [result for result in results if JOBS[result["job"]].texts]
    others = [result for result in results if result not in of_texts]
    lines = []
    if others:
        lines += ["| work | peer | heed, ms | peer, ms | its spread | ratio (least–most) | of heed's limit | peak memory, MB |",
                  "|---|---|---|---|---|---|---|---|", *map(row, others)]
    if of_texts:
        lines += [""] * bool(others) + ["| work | peer | heed, texts/s | peer, texts/s | its spread | ratio (least–most) | peak memory, MB |",
                                        "|---|---|---|---|---|---|---|", *map(texts_row, of_texts)]
    return "\n".join(lines)


def section(kind, results):
    gflops = [peak for r in results if "int8" not in JOBS[r["job"]].heed for peak in r["peak_gflops"]]  # the others' limit is that of bytes
    gbps = [peak for r in results for peak in r["peak_gbps"]]
    threads = sorted({r["threads"] for r in results})
    revisions = sorted({r["revision"] for r in results})
    names = sorted({r["processor"]["name"] for r in results})
    text = f"### {kind}\n{', '.join(names)}, {', '.join(map(str, threads))} threads, revision {', '.join(revisions)}."
    if gflops:
        text += (f" Limits of the machine in the same runs: {statistics.median(gflops):.0f} Gflop/s of f32 arithmetic "
                 f"({min(gflops):.0f} to {max(gflops):.0f}), {statistics.median(gbps):.1f} GB/s read from memory "
                 f"({min(gbps):.1f} to {max(gbps):.1f}).")
    return f"{text}\n\n{table(results)}\n"


def main():
    results_file = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "bench/peers/results.jsonl"
    page = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs/performance.md"
    last = {}
    for line in results_file.read_text().splitlines():
        result = json.loads(line)
        last[result["processor"]["kind"], result["job"], result["peer"]] = result
    sections = []
    for kind in KINDS:
        order = [last[kind, job, peer] for job in JOBS for peer in JOBS[job].peers if (kind, job, peer) in last]
        if order:
            sections.append(section(kind, order))
    text, count = re.subn(r"(<!-- peers -->\n).*?(<!-- /peers -->)", lambda found: found[1] + "\n".join(sections) + found[2],
                          page.read_text(), flags=re.S)
    if count != 1:
        raise SystemExit(f"{page}: expected <!-- peers --> and <!-- /peers --> once, got {count}")
    page.write_text(text)


main()
