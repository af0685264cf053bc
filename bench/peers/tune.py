"""Fine-tunes a trained model with heed and with the library that people take for it, in turns on one core, and compares the
processor time of the work and the peak memory of the process.

    python bench/peers/tune.py classifier|lora|embedding|cached --heed build/release/heed --model FOLDER --data FILE [--rounds 3]

| work | peer | model; file |
|---|---|---|
| classifier | transformers' Trainer, batches of texts of similar lengths | an encoder; lines of label, tab, text |
| lora | PEFT in transformers' Trainer, rank 8 on all linear maps | a decoder; a text |
| embedding | sentence-transformers' trainer, in-batch negatives, batches of 128 pairs, which both compute at once | an encoder; JSON lines of anchor and positive |
| cached | the same with cached gradients (`CachedMultipleNegativesRankingLoss`, 32 texts at a time; heed: 2,048 tokens) | the same |

All train in float32 with AdamW. Each process runs twice, over a short and a long part of the file; the difference of their processor
times is the work without loading and imports. Needs torch, transformers, accelerate, datasets, peft and sentence-transformers.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROWS = {"classifier": (256, 1280), "lora": (8, 40), "embedding": (128, 512), "cached": (128, 512)}
LENGTH = {"classifier": 128, "lora": 256, "embedding": 128, "cached": 128}


def heed_command(work, given, rows, folder):
    length = LENGTH[work]
    file = part_of(work, given.data, rows, folder)
    common = {"data.train": file, "train.epochs": 1, "eval.every": 0, "checkpoint.every": 100000, "train.warmup": 0.1,
              "train.schedule": "linear", "train.clip_norm": 1.0}
    if work == "classifier":
        recipe, own = "classifier", {"data.max_tokens": length, "train.lr": 2e-5, "train.batch_tokens": 2048, "data.dev_size": 0, "data.test_size": 0}
    elif work == "lora":
        recipe, own = "chat", {"task.context": length, "task.answers_after": "", "data.format": "text", "data.dev_share": 0, "lora.rank": 8,
                               "train.steps": rows // 4, "train.batch_tokens": 4 * length, "train.accumulate": 1, "train.epochs": 0}
    else:
        recipe, own = "embedding", {"data.max_tokens": length, "data.dev_size": 0, "train.batch_tokens": 65536 if work == "embedding" else 2048}
    settings = [f"--set={key}={value}" for key, value in (common | own).items()]
    recipe = Path(__file__).parents[2] / "recipes" / (recipe + ".toml")
    return [given.heed, "train", recipe, "--init", given.model, "--output", os.path.join(folder, "run"), "--threads", "1", "--quiet", *settings]


def part_of(work, path, rows, folder):
    """The first rows of the file as a file of their own."""
    if work == "lora":
        return path
    out = os.path.join(folder, "part" + Path(path).suffix)
    with open(path) as source, open(out, "w") as target:
        target.writelines(line for _, line in zip(range(rows), source))
    return out


def train_peer(work, model, data, rows, out):
    import torch
    import transformers

    torch.set_num_threads(1)
    common = dict(output_dir=out, save_strategy="no", report_to=[], disable_tqdm=True, num_train_epochs=1, learning_rate=2e-5, lr_scheduler_type="linear",
                  warmup_steps=0.1, max_grad_norm=1.0, use_cpu=True, seed=1)
    if work in ("embedding", "cached"):
        import datasets
        import sentence_transformers as st
        from sentence_transformers.sentence_transformer import losses

        encoder = st.SentenceTransformer(model, device="cpu")
        encoder.max_seq_length = LENGTH[work]
        pairs = [json.loads(line) for line in open(data)][:rows]
        dataset = datasets.Dataset.from_list([{"anchor": pair["anchor"], "positive": pair["positive"]} for pair in pairs])
        loss = losses.MultipleNegativesRankingLoss(encoder) if work == "embedding" else losses.CachedMultipleNegativesRankingLoss(encoder, mini_batch_size=32)
        settings = st.SentenceTransformerTrainingArguments(per_device_train_batch_size=128, **common)
        return st.SentenceTransformerTrainer(model=encoder, args=settings, train_dataset=dataset, loss=loss).train()
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    if work == "classifier":
        lines = [line.rstrip("\n").split("\t") for _, line in zip(range(rows), open(data))]
        names = sorted({label for label, _ in lines})
        network = transformers.AutoModelForSequenceClassification.from_pretrained(model, num_labels=len(names), dtype=torch.float32)
        examples = [tokenizer(text, truncation=True, max_length=LENGTH[work]) | {"labels": names.index(label)} for label, text in lines]
        settings = transformers.TrainingArguments(per_device_train_batch_size=32, train_sampling_strategy="group_by_length", **common)
        collate = transformers.DataCollatorWithPadding(tokenizer)
    else:
        import peft

        network = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        network = peft.get_peft_model(network, peft.LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"))
        size = LENGTH[work]
        ids = tokenizer(Path(data).read_text()[:rows * size * 8])["input_ids"]
        examples = [{"input_ids": ids[at:at + size], "labels": ids[at:at + size]} for at in range(0, rows * size, size)]
        settings = transformers.TrainingArguments(per_device_train_batch_size=4, **common)
        collate = transformers.default_data_collator
    transformers.Trainer(model=network, args=settings, train_dataset=examples, data_collator=collate).train()


def measured(command):
    """Processor seconds, and MiB at the peak, of a process on the first core."""
    core = min(os.sched_getaffinity(0))
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env=os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
                                   preexec_fn=lambda: os.sched_setaffinity(0, [core]))
        _, status, used = os.wait4(process.pid, 0)
        if status != 0:
            said.seek(0)
            sys.exit(f"{' '.join(map(str, command))[:300]}: status {status}:\n{said.read()[-3000:]}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def work_of(command_of, sizes):
    """Processor seconds of the rows between the two sizes, and the larger peak."""
    (short, _), (long, memory) = (measured(command_of(rows)) for rows in sizes)
    return long - short, memory


def main(given):
    ratios = []
    for number in range(given.rounds):
        results = {}
        for name in ("heed", "peer") if number % 2 == 0 else ("peer", "heed"):
            with tempfile.TemporaryDirectory() as folder:
                def command_of(rows):
                    if name == "heed":
                        return heed_command(given.work, given, rows, tempfile.mkdtemp(dir=folder))
                    return [sys.executable, __file__, given.work, "--model", given.model, "--data", given.data, "--peer-rows", str(rows), "--output", folder]
                results[name] = work_of(command_of, ROWS[given.work])
        (ours, our_memory), (theirs, their_memory) = results["heed"], results["peer"]
        ratios.append(theirs / ours)
        print(f"{given.work}: heed {ours:.1f} s, {our_memory:.0f} MiB; peer {theirs:.1f} s, {their_memory:.0f} MiB; "
              f"time peer / heed {ratios[-1]:.2f}, memory heed / peer {our_memory / their_memory:.2f}", flush=True)
    print(f"{given.work}: median of {given.rounds} ratios {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=ROWS)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--heed", default="build/release/heed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-rows", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--output", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peer_rows:
        train_peer(given.work, given.model, given.data, given.peer_rows, given.output)
    else:
        main(given)
