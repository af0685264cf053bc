"""Runs one peer in a separate process: peer.py JOB PEER CACHE THREADS.

For each line `SECONDS LEAST` on stdin, prints a line of JSON: the times of as many repeats as fit into SECONDS seconds
(at least LEAST repeats), and the peak memory of the process.
"""
import json
import sys
import time
from pathlib import Path

from jobs import JOBS


def peak_memory():
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def main():
    job, peer, cache, threads = sys.argv[1:]
    work = JOBS[job].peers[peer](Path(cache), int(threads))
    for _ in range(1 if JOBS[job].repeats else 2):  # compilers and caches of shapes take the first
        work()
    print("ready", flush=True)
    for line in sys.stdin:
        seconds, least = (float(word) for word in line.split())
        times = []
        while sum(times) < seconds or len(times) < least:
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
        print(json.dumps({"seconds": times, "peak_memory": peak_memory()}), flush=True)


main()
