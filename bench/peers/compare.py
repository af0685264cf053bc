#!/usr/bin/env python3
"""Compares heed with another system (a peer) on one job, alternately, and appends the result to a file of JSON lines.

    bench/peers/compare.py JOB [PEER] [--rounds 3] [--seconds 2] [--heed build/release/heed]
    bench/peers/compare.py --all [--prefix "nice -n -5"]     every job with every peer, each in a separate process, as without PEER
    bench/peers/compare.py --list

The two alternate within one run, so that changes of the clock rate or of other load affect both; while one runs, the
other is stopped. A round's time is the median of its repeats; the ratio is taken round by round. A run in which the peer's
own times differ by more than a tenth is repeated, at most twice, and the steadiest is kept.

--target avx2 holds both sides to AVX2 without VNNI on a processor that has more (hold_avx2.c, which needs gcc, and a kernel and a
processor that can hide features); peers that were compiled for this processor are left out.
"""
import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from jobs import JOBS, default_cache
from texts import texts_of

HERE = Path(__file__).resolve().parent
# The others' threads would all have the first one's processor.
ON_OPENMP = ("PyTorch", "torch.compile", "transformers", "sentence-transformers", "sentence-transformers, fastest batch")
TARGETS = ("avx2",)
COMPILED_HERE = ("llama.cpp",)
STEADY, RUNS = 1.1, 3  # a peer's longest time of a round by its shortest


def environment(arguments, bind):
    """Without settings that have waiting threads spin for ever, against the other side."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))} | {
        "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "CUDA_VISIBLE_DEVICES": ""} | (
        {"LD_PRELOAD": str(holder(arguments.target, arguments.cache))} if arguments.target else {}) | (
        {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"} if bind else {})


def holder(target, cache):
    """The library that holds a program to these instructions, compiled."""
    source, library = HERE / f"hold_{target}.c", cache / f"hold_{target}.so"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


class Peer:
    def __init__(self, arguments):
        self.process = subprocess.Popen(
            [sys.executable, HERE / "peer.py", arguments.job, arguments.peer, arguments.cache, str(arguments.threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment(arguments, arguments.bind and arguments.peer in ON_OPENMP))
        while (line := self.process.stdout.readline()) != "ready\n":  # libraries may greet
            if not line:
                raise SystemExit(f"compare: {arguments.peer} ended before it was ready")
        self.pause()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def run(self, seconds, least):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(f"{seconds} {least}\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        self.pause()
        return answer

    def end(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()


def run_command(command, repeats, arguments, text=None):
    """A whole command, timed from outside: nothing but its time and its memory is known."""
    times, memory = [], 0
    with tempfile.TemporaryFile("w+") as given:
        given.write(text or "")
        for _ in range(repeats):
            given.seek(0)
            start = time.perf_counter()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stdin=given, env=environment(arguments, arguments.bind))
            _, status, used = os.wait4(process.pid, 0)  # its memory alone: peers are children, too
            times.append(time.perf_counter() - start)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                raise subprocess.CalledProcessError(process.returncode, command)
            memory = max(memory, used.ru_maxrss * 1024)
    return {"median_s": statistics.median(times), "peak_memory_bytes": memory}


def run_texts(command, count, arguments):
    """A command that makes vectors of texts, without its start and its opening of the model."""
    lines = [line + "\n" for line in texts_of(arguments.cache, count)]
    with tempfile.TemporaryDirectory() as folder:
        command = [*command, "--threads", str(arguments.threads), "--output", f"{folder}/vectors.npy"]
        one = run_command(command, 3, arguments, lines[0])
        result = run_command(command, arguments.repeats, arguments, "".join(lines))
    return result | {"median_s": result["median_s"] - one["median_s"]}


def run_heed(arguments):
    job = JOBS[arguments.job]
    command = [arguments.heed, *(word.replace("CACHE", str(arguments.cache)) for word in job.heed)]
    if job.texts:
        return run_texts(command, job.texts, arguments)
    if job.process:
        return run_command(command, 10, arguments)
    command.insert(1, "bench")
    command += ["--json", "--threads", str(arguments.threads), "--seconds", str(arguments.seconds)]
    if arguments.repeats:
        command += ["--repeats", str(arguments.repeats)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True,
                                     env=environment(arguments, arguments.bind)).stdout)


def revision():
    """Of the tree that this stands in, which `heed` should have been built from."""
    found = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def processor(target):
    """The kind of processor, by the widest instructions that heed has kernels for, and its name."""
    text = Path("/proc/cpuinfo").read_text()
    flags = set(re.search(r"^flags\s*: (.*)$", text, re.M).group(1).split())
    kind = next((kind for flag, kind in (("amx_bf16", "AMX"), ("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in flags),
                "portable")
    if target:
        kind += f", held to {target.upper()}"
    return {"kind": kind, "name": re.search(r"^model name\s*: (.*)$", text, re.M).group(1)}


def compare(arguments):
    peer = Peer(arguments)
    rounds = []
    for _ in range(arguments.rounds):
        ours = run_heed(arguments)
        theirs = peer.run(arguments.seconds, arguments.repeats or 3)
        rounds.append((ours, theirs))
    peer.end()
    ours, theirs = zip(*rounds)
    times = [statistics.median(r["seconds"]) for r in theirs]
    return {
        "job": arguments.job, "peer": arguments.peer, "revision": revision(), "processor": processor(arguments.target),
        "threads": arguments.threads,
        "heed_s": [r["median_s"] for r in ours], "peer_s": times,
        "ratio": [t / r["median_s"] for r, t in zip(ours, times)],
        **{key: [r[key] for r in ours if key in r]
           for key in ("fraction", "bound", "backward_fraction", "peak_gflops", "peak_gbps")},
        "heed_memory": max(r["peak_memory_bytes"] for r in ours), "peer_memory": theirs[-1]["peak_memory"],
    }


def ignores_target(peer):
    return any(name in peer for name in COMPILED_HERE)


def spread(result):
    return max(result["peer_s"]) / min(result["peer_s"])


def compare_all(arguments, options):
    """One after the other; the rest goes on when one of them fails."""
    failed = []
    for name in [arguments.job] if arguments.job else JOBS:
        for peer in JOBS[name].peers:
            if arguments.target and ignores_target(peer):
                print(f"{name}: {peer} left out: it was compiled for this processor")
                continue
            command = [*arguments.prefix.split(), sys.executable, __file__, name, peer, *options]
            if subprocess.run(command).returncode != 0:
                failed.append(f"{name} {peer}")
    if failed:
        raise SystemExit("compare: failed: " + ", ".join(failed))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", nargs="?", choices=JOBS, metavar="JOB")
    parser.add_argument("peer", nargs="?", metavar="PEER")
    parser.add_argument("--all", action="store_true", help="every job with every peer")
    parser.add_argument("--prefix", default="", help="a command that starts each of --all")
    parser.add_argument("--list", action="store_true", help="the jobs and their peers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of a round, for each side")
    parser.add_argument("--repeats", type=int, help="of a round, instead")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--target", choices=TARGETS, help="hold both to these instructions")
    parser.add_argument("--heed", default=HERE.parent.parent / "build/release/heed")
    parser.add_argument("--bind", action="store_true",
                        help="bind OpenMP's threads to processors: those of real-time processes may else share one")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="what prepare.py made")
    parser.add_argument("--results", type=Path, default=HERE / "results.jsonl")
    arguments = parser.parse_args()
    if arguments.list:
        for name, job in JOBS.items():
            for peer in job.peers:
                print(f"{name:<32}{peer}")
        return
    if arguments.all or (arguments.job and not arguments.peer):
        options = [f"--{key}={getattr(arguments, key)}" for key in
                   ("rounds", "seconds", "threads", "target", "heed", "cache", "results", "repeats") if getattr(arguments, key)]
        options += ["--bind"] * arguments.bind
        compare_all(arguments, options)
        return
    if arguments.job is None or arguments.peer not in JOBS[arguments.job].peers:
        parser.error("expected a JOB and a PEER of --list")
    if arguments.repeats is None:
        arguments.repeats = JOBS[arguments.job].repeats
    if arguments.target and ignores_target(arguments.peer):
        parser.error(f"--target: {arguments.peer} was compiled for this processor")
    result = compare(arguments)
    for _ in range(RUNS - 1):
        if spread(result) <= STEADY:
            break
        result = min(result, compare(arguments), key=spread)
    with open(arguments.results, "a") as file:
        print(json.dumps(result), file=file)
    print(f"{arguments.job}: heed {statistics.median(result['heed_s']):.4g} s, {arguments.peer} "
          f"{statistics.median(result['peer_s']):.4g} s, ratio {statistics.median(result['ratio']):.2f}, "
          f"spread of the peer's rounds {spread(result) - 1:.0%}")


if __name__ == "__main__":
    main()
