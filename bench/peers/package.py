"""The Python package beside the command, sentence-transformers and TransformerLens: time and memory, on the first core.

    python bench/peers/package.py encode|memory|head|ablate --encoder FOLDER --decoder FOLDER --texts FILE [--rounds 3]

| work | what is compared |
|---|---|
| encode | the vectors of 1,000 texts: the package, `heed embed`, sentence-transformers; processor time after loading, of the command its whole process |
| memory | MiB at the peak of a process that imports a library and makes these vectors |
| head | a pass of 256 tokens, and the same with the attention of one head read by run_with_cache() |
| ablate | the loss without each head, one at a time: the package on --heed-texts texts, TransformerLens on --peer-texts; seconds a text |

Needs the package with its command, torch, transformers, sentence-transformers and transformer_lens. In turns, each in a process of its own.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import time


def seconds(work):
    begin = time.process_time()
    work()
    return time.process_time() - begin


def lines_of(given, count):
    lines = [line.strip() for line in open(given.texts, encoding="utf-8") if line.strip()]
    return [lines[i % len(lines)] for i in range(count)]


def encode_heed(given):
    import heed

    model, texts = heed.load(given.encoder, threads=1), lines_of(given, 1000)
    model.encode(texts[:32])
    return {"seconds": seconds(lambda: model.encode(texts))}


def encode_command(given):
    from heed._training import command

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([command(), "embed", "--threads", "1", "--model", given.encoder, "--output", given.output],
                   input="\n".join(lines_of(given, 1000)), text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def encode_peer(given):
    import sentence_transformers
    import torch

    torch.set_num_threads(1)
    model, texts = sentence_transformers.SentenceTransformer(given.encoder, device="cpu"), lines_of(given, 1000)
    model.encode(texts[:32])
    return {"seconds": seconds(lambda: model.encode(texts))}


def head_heed(given):
    import heed

    model = heed.load(given.decoder, threads=1)
    ids = {"input_ids": [model.tokenizer.encode(" ".join(lines_of(given, 40))).ids[:256]]}
    plain, head = [], []
    for _ in range(12):
        plain.append(seconds(lambda: model.forward(ids)))
        head.append(seconds(lambda: model.run_with_cache(ids, names=["blocks.3.attn.hook_pattern"], heads=[1])))
    return {"plain": min(plain), "head": min(head)}


def ablate_heed(given):
    import heed

    model, texts = heed.load(given.decoder, threads=1), lines_of(given, given.heed_texts)
    return {"seconds": seconds(lambda: heed.ablate(model, texts, metric="loss", show_progress_bar=False)) / len(texts)}


def ablate_peer(given):
    import torch
    import transformers
    from transformer_lens.model_bridge import TransformerBridge

    torch.set_num_threads(1)
    plain = transformers.AutoModelForCausalLM.from_pretrained(given.decoder, attn_implementation="eager", dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(given.decoder)
    model = TransformerBridge.boot_transformers(given.decoder, hf_model=plain, tokenizer=tokenizer, device="cpu")
    texts, config = lines_of(given, given.peer_texts), plain.config

    def without(head):
        def hook(z, hook):
            z[:, :, head] = 0
            return z
        return hook

    def work():
        with torch.no_grad():
            for text in texts:
                ids = torch.tensor([tokenizer(text)["input_ids"]])
                for layer in range(config.num_hidden_layers):
                    for head in range(config.num_attention_heads):
                        model.run_with_hooks(ids, return_type="loss", fwd_hooks=[(f"blocks.{layer}.attn.hook_z", without(head))])
    return {"seconds": seconds(work) / len(texts)}


RUNS = {"encode": (encode_heed, encode_command, encode_peer), "memory": (encode_heed, encode_peer), "head": (head_heed,), "ablate": (ablate_heed, ablate_peer)}


def main(given):
    for number in range(given.rounds):
        for run in RUNS[given.work] if number % 2 == 0 else RUNS[given.work][::-1]:
            command = [sys.executable, __file__, given.work, "--run", run.__name__, *sys.argv[2:]]
            done = subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(done.stderr[-2000:])
            found = json.loads(done.stdout.splitlines()[-1])
            print(given.work, run.__name__, *(f"{name} {value:.4g}" for name, value in found.items()), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=RUNS)
    parser.add_argument("--encoder")
    parser.add_argument("--decoder")
    parser.add_argument("--texts", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--heed-texts", type=int, default=200)
    parser.add_argument("--peer-texts", type=int, default=2)
    parser.add_argument("--output", default="/tmp/vectors.npy", help="a file that the command may write")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    if given.run:
        found = next(run for run in RUNS[given.work] if run.__name__ == given.run)(given)
        if given.work == "memory":
            found = {"MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
        print(json.dumps(found))
    else:
        main(given)
