#!/usr/bin/env python3
"""How near the vectors of texts are to those of sentence-transformers in f32: heed's and its peers', in f32 and int8. Writes a table.

    bench/peers/quality.py [--model minilm|bert-base] [--heed build/release/heed]

| column | meaning |
|---|---|
| mean, least cosine | of a text's two vectors |
| rank correlation | Spearman's, of the similarities of 2,000 random pairs of texts |
| nearest | share of texts whose nearest neighbour among all is the same text |
"""
import argparse
import os
import subprocess
import tempfile
from pathlib import Path

import numpy
import scipy.stats

from jobs import JOBS, default_cache
from texts import texts_of

PAIRS = 2000


def heed_vectors(job, given):
    text = "".join(line + "\n" for line in texts_of(given.cache, job.texts))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "vectors.npy"
        command = [given.heed, *(word.replace("CACHE", str(given.cache)) for word in job.heed), "--threads", str(given.threads),
                   "--output", file]
        subprocess.run(command, input=text, text=True, check=True)
        return numpy.load(file)


def nearest(vectors):
    similarities = vectors @ vectors.T
    numpy.fill_diagonal(similarities, -numpy.inf)
    return similarities.argmax(1)


def row(name, vectors, reference):
    cosines = (vectors * reference).sum(1)
    one, other = numpy.random.default_rng(7).integers(0, len(reference), (2, PAIRS))
    ranks = scipy.stats.spearmanr(*((x[one] * x[other]).sum(1) for x in (vectors, reference))).statistic
    same = (nearest(vectors) == nearest(reference)).mean()
    return f"| {name} | {cosines.mean():.5f} | {cosines.min():.5f} | {ranks:.5f} | {100 * same:.1f} % |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("minilm", "bert-base"), default="minilm")
    parser.add_argument("--heed", default=Path(__file__).resolve().parents[2] / "build/release/heed")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="what prepare.py made")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    given = parser.parse_args()
    plain, rounded = JOBS[f"texts-{given.model}"], JOBS[f"texts-{given.model}-int8"]
    reference = plain.peers["sentence-transformers"](given.cache, given.threads)()
    print("| vectors | mean cosine | least | rank correlation | nearest |\n|---|---|---|---|---|")
    for kind, job in (("f32", plain), ("int8", rounded)):
        print(row(f"heed, {kind}", heed_vectors(job, given), reference))
        for peer in ("ONNX Runtime", "OpenVINO"):
            print(row(f"{peer}, {kind}", job.peers[peer](given.cache, given.threads)(), reference), flush=True)


if __name__ == "__main__":
    main()
