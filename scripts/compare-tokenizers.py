#!/usr/bin/env python3
"""Compares `heed tokenize` on every line of a text with the package that a tokenizer was made for.

    scripts/compare-tokenizers.py --heed build/release/heed --text LINES FOLDER...

The package is tokenizers for a tokenizer.json, vocab.txt or vocab.json + merges.txt (encoder.json + vocab.bpe),
SentencePiece for a *.model, and transformers for Marian's *.spm and for SentencePiece models of families with their own ids
(sentencepiece.bpe.model, ALBERT's spiece.model, with their configuration files). Prints a row of Markdown per folder and the
first texts that differ; fails if any text differs. With --vectors INP, the texts and the expected ids without special tokens
are from test vectors of llama.cpp (ggml-vocab-*.gguf.inp, and the .out file with it). With --speed, prints speed instead:
megabytes per second of processor time on one thread, heed and the package alternating (bench/tokenize.cpp runs heed)."""
import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ |= {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def fast(folder):
    """A tokenizers.Tokenizer, or None."""
    import tokenizers
    from tokenizers import implementations
    if (folder / "tokenizer.json").exists():
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer
    if (folder / "vocab.txt").exists():
        tokenizer = implementations.BertWordPieceTokenizer(str(folder / "vocab.txt"), lowercase=True)
        tokenizer.add_special_tokens(["[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"])
        return tokenizer._tokenizer
    for vocabulary, merges in (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")):
        if (folder / merges).exists():
            tokenizer = implementations.ByteLevelBPETokenizer(str(folder / vocabulary), str(folder / merges))
            tokenizer.add_special_tokens(["<|endoftext|>"])
            return tokenizer._tokenizer
    return None


def numbered_by_family(folder):
    configs = [folder / name for name in ("config.json", "tokenizer_config.json") if (folder / name).exists()]
    albert = (folder / "spiece.model").exists() and any("albert" in path.read_text().lower() for path in configs)
    return not (folder / "tokenizer.json").exists() and (albert or (folder / "sentencepiece.bpe.model").exists())


def oracle(folder):
    """Texts to (ids, offsets or None) each, and what made them."""
    if (folder / "source.spm").exists():
        import transformers
        transformers.logging.set_verbosity_error()
        tokenizer = transformers.MarianTokenizer(str(folder / "source.spm"), str(folder / "target.spm"),
                                                 str(folder / "vocab.json"))
        return lambda texts: [(tokenizer(text, truncation=False)["input_ids"], None) for text in texts], "MarianTokenizer"
    if numbered_by_family(folder):
        import transformers
        transformers.logging.set_verbosity_error()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

        def encode_by_family(texts):
            batch = tokenizer(texts, return_offsets_mapping=True)
            return [(ids, [list(o) for o in offsets])
                    for ids, offsets in zip(batch["input_ids"], batch["offset_mapping"])]
        return encode_by_family, "transformers"
    tokenizer = fast(folder)
    if tokenizer is not None:
        def encode(texts):
            return [(e.ids, [list(o) for o in e.offsets]) for e in tokenizer.encode_batch(texts)]
        return encode, "tokenizers"
    models = sorted(folder.glob("*.model"))
    if not models:
        sys.exit(f"{folder}: expected a tokenizer, got none")
    import sentencepiece
    piece = sentencepiece.SentencePieceProcessor(model_file=str(models[0]))

    def encode_pieces(texts):
        for text in texts:
            pieces = piece.encode(text, return_type="proto").pieces  # with offsets in bytes
            bytes_of = text.encode()
            places = [0] * (len(bytes_of) + 1)
            for character, start in enumerate(itertools.accumulate((len(c.encode()) for c in text), initial=0)):
                places[start] = character
            yield [p.id for p in pieces], [[places[p.begin], places[p.end]] for p in pieces]
    return encode_pieces, "SentencePiece"


def alone(folder, place):
    """The tokenizer's own files in a folder of their own: what configuration stands beside them, transformers heeds,
    but the packages do not."""
    if numbered_by_family(folder):
        for path in [*folder.glob("*.json"), *folder.glob("*.model")]:
            shutil.copy(path, place)
        return
    for names in (["source.spm", "target.spm", "vocab.json"], ["tokenizer.json"], ["vocab.txt"],
                  ["vocab.json", "merges.txt"], ["encoder.json", "vocab.bpe"]):
        if all((folder / name).exists() for name in names):
            for name in names:
                shutil.copy(folder / name, place)
            return
    shutil.copy(sorted(folder.glob("*.model"))[0], Path(place) / "tokenizer.model")


def heed_encodings(heed, folder, lines, plain):
    command = [heed, "tokenize", "--quiet", "--model", folder] + (["--no-special-tokens"] if plain else [])
    process = subprocess.Popen(command, stdin=open(lines, "rb"), stdout=subprocess.PIPE)
    for line in process.stdout:
        encoding = json.loads(line)
        yield encoding["ids"], encoding["offsets"]
    if process.wait() != 0:
        sys.exit(f"heed tokenize {folder} failed")


def compare(heed, folder, lines, texts):
    encode, package = oracle(folder)
    plain = package == "SentencePiece"
    place = tempfile.TemporaryDirectory()
    alone(folder, place.name)
    encodings = heed_encodings(heed, place.name, lines, plain)
    ids = offsets = 0
    for begin in range(0, len(texts), 2000):
        window = texts[begin:begin + 2000]
        for text, (want, want_offsets) in zip(window, encode(window)):
            got, got_offsets = next(encodings)
            if got != want:
                ids += 1
                if ids <= 3:
                    print(f"  {folder.name}: {text!r}\n    heed {got}\n    {package} {want}", file=sys.stderr)
            elif want_offsets is not None and got_offsets != want_offsets:
                offsets += 1
                if offsets <= 3:
                    print(f"  {folder.name}: {text!r}\n    heed {got_offsets}\n    {package} {want_offsets}", file=sys.stderr)
    checked = "not given" if package == "MarianTokenizer" else offsets
    print(f"| {folder.name} | {package} | {len(texts)} | {ids} | {checked} |", flush=True)
    return ids + offsets


def compare_vectors(heed, folder, inp):
    texts = inp.read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
    wanted = [[int(i) for i in line.split()] for line in inp.with_suffix(".out").read_text().split("\n")]
    if len(texts) != len(wanted):
        sys.exit(f"{inp}: expected a line of ids for each of {len(texts)} texts, got {len(wanted)}")
    others = 0
    for text, want in zip(texts, wanted):
        command = [heed, "tokenize", "--quiet", "--no-special-tokens", "--model", folder, "--", text]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        if json.loads(done.stdout)["ids"] != want:
            others += 1
            print(f"  {folder.name}: {text!r}\n    heed {done.stdout}    {inp.name} {want}", file=sys.stderr)
    print(f"| {folder.name} | {inp.name} | {len(texts)} | {others} | not given |", flush=True)
    return others


def rate(heed, folder, lines, texts, rounds):
    size = sum(len(text.encode()) for text in texts) / 1e6
    tokenizer = fast(folder)
    program = Path(heed).parent / "bench_tokenize"
    ours, theirs = [], []
    for _ in range(rounds):
        done = subprocess.run([program, folder, lines], capture_output=True, text=True, check=True)
        ours.append(size / float(done.stdout))
        started = time.process_time()
        for begin in range(0, len(texts), 1000):
            tokenizer.encode_batch(texts[begin:begin + 1000])
        theirs.append(size / (time.process_time() - started))
    ratios = [a / b for a, b in zip(ours, theirs)]
    print(f"| {folder.name} | {statistics.median(ours):.1f} | {statistics.median(theirs):.1f} | "
          f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f}) |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heed", default="build/release/heed")
    parser.add_argument("--text", help="a file of texts, one a line")
    parser.add_argument("--vectors", type=Path, metavar="INP")
    parser.add_argument("--speed", type=int, metavar="ROUNDS")
    parser.add_argument("folders", nargs="+", type=Path)
    arguments = parser.parse_args()
    if (arguments.text is None) == (arguments.vectors is None):
        parser.error("expected one of --text and --vectors")
    if arguments.vectors:
        sys.exit(min(1, sum(compare_vectors(arguments.heed, folder, arguments.vectors) for folder in arguments.folders)))
    with open(arguments.text, encoding="utf-8", newline="\n") as file:
        texts = file.read().removesuffix("\n").split("\n")
    if arguments.speed:
        print("| tokenizer | heed, MB/s | tokenizers, MB/s | ratio |\n|---|---|---|---|")
        for folder in arguments.folders:
            rate(arguments.heed, folder, arguments.text, texts, arguments.speed)
        return
    print("| tokenizer | package | texts | other ids | other offsets |\n|---|---|---|---|---|")
    if sum([compare(arguments.heed, folder, arguments.text, texts) for folder in arguments.folders]) > 0:
        sys.exit(1)


main()
