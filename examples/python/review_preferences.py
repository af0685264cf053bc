"""The first experiment of the DPO paper (Rafailov et al. 2023, section 6.1) in small: a language model of film reviews learns
to continue them kindly, from pairs that a classifier ranks; reward against distance to the model it began with.

    python examples/python/review_preferences.py MODEL reviews.txt OUTPUT

MODEL continues reviews (docs/fine-tuning.md says how the one there was trained); reviews.txt has one review a line, whose first
words are the prompts. The classifier is the model `reviews` that comes with heed.
"""
import argparse
import csv
import json
from pathlib import Path

import numpy as np

import heed

RECIPE = """
[task]
kind = "preference"
loss = "{loss}"
{settings}
context = 128

[data]
train = "pairs.jsonl"
dev = "pairs-dev.jsonl"

[train]
lr = {lr}
schedule = "constant"
warmup = 10
steps = {steps}
batch_tokens = 4096
clip_norm = 1.0
weight_decay = 0.0
seed = 1

[eval]
every = {every}

[checkpoint]
every = {every}
keep = 100
"""
WORDS, TOKENS = 6, 48


def prompts_of(lines, count, skip=0):
    chosen = [" ".join(line.split()[:WORDS]) for line in lines[skip:skip + 2 * count] if len(line.split()) > 2 * WORDS]
    return chosen[:count]


def sampled(model, prompts, number, seed):
    found = model.generate(prompts, max_new_tokens=TOKENS, do_sample=True, top_k=0, temperature=1.0, seed=seed,
                           num_return_sequences=number)
    return [[one] if isinstance(one, str) else one for one in found]


def rewards(classifier, texts):
    """The probability that a text is positive."""
    return np.array([dict(labels)["positive"] for labels in classifier.classify(texts)])


def make_pairs(model, classifier, prompts, file, seed):
    with open(file, "w") as out:
        for start in range(0, len(prompts), 200):
            part = prompts[start:start + 200]
            continuations = sampled(model, part, 4, seed + start)
            scores = rewards(classifier, [p + c for p, four in zip(part, continuations) for c in four]).reshape(-1, 4)
            for prompt, four, score in zip(part, continuations, scores):
                best, worst = four[int(score.argmax())], four[int(score.argmin())]
                if best.strip() and worst.strip() and best != worst:
                    out.write(json.dumps({"prompt": prompt, "chosen": best, "rejected": worst}, ensure_ascii=False) + "\n")


def measure(model, reference, classifier, prompts):
    """Mean reward of sampled continuations, and the mean of log p(y|x) - log p_ref(y|x), which estimates the KL divergence."""
    continuations = [one[0] for one in sampled(model, prompts, 1, 7)]
    pairs = list(zip(prompts, continuations))
    own, base = model.loglikelihood(pairs), reference.loglikelihood(pairs)
    kl = np.mean([a - b for (a, _), (b, _) in zip(own, base)])
    return float(rewards(classifier, [p + c for p, c in pairs]).mean()), float(kl)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("model")
    arguments.add_argument("reviews")
    arguments.add_argument("output", type=Path)
    arguments.add_argument("--prompts", type=int, default=2000)
    arguments.add_argument("--steps", type=int, default=60)
    given = arguments.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    lines = [line for line in Path(given.reviews).read_text().splitlines() if line.strip()]
    reference, classifier = heed.load(given.model), heed.load("reviews")
    held_out = prompts_of(lines, 256, skip=len(lines) - 1000)
    for name, prompts, seed in (("pairs.jsonl", prompts_of(lines, given.prompts), 1), ("pairs-dev.jsonl", held_out, 99991)):
        if not (given.output / name).exists():
            make_pairs(reference, classifier, prompts, given.output / name, seed)
    rows = [("start", 0, *measure(reference, reference, classifier, held_out))]
    print(*rows[0])
    runs = [("DPO beta 0.05", "dpo", "beta = 0.05", 2e-5), ("DPO beta 0.1", "dpo", "beta = 0.1", 2e-5),
            ("DPO beta 0.5", "dpo", "beta = 0.5", 2e-5), ("ORPO", "orpo", "", 2e-5)]
    every = given.steps // 4
    for name, loss, settings, lr in runs:
        recipe = given.output / f"{name.replace(' ', '-').lower()}.toml"
        recipe.write_text(RECIPE.format(loss=loss, settings=settings, lr=lr, steps=given.steps, every=every))
        folder = given.output / recipe.stem
        if not (folder / "config.json").exists():
            heed.train(recipe, folder, init=given.model, resume=True)
        for step in range(every, given.steps + 1, every):
            checkpoint = folder / "checkpoints" / str(step)
            if checkpoint.exists():
                rows.append((name, step, *measure(heed.load(checkpoint), reference, classifier, held_out)))
                print(*rows[-1], flush=True)
    with open(given.output / "reward-and-kl.csv", "w", newline="") as file:
        csv.writer(file).writerows([("run", "step", "reward", "kl")] + rows)
    series = {}
    for name, _, reward, kl in rows[1:]:
        series.setdefault(name, ([rows[0][3]], [rows[0][2]]))
        series[name][0].append(kl)
        series[name][1].append(reward)
    chart = heed.line_chart("Reward against distance from the start", "KL to the start, nats a continuation",
                            "probability of a positive review", series)
    (given.output / "reward-and-kl.svg").write_text(chart)


if __name__ == "__main__":
    main()
