"""What train_*.py share: Transformers of plain PyTorch modules with F.scaled_dot_product_attention, batches by tokens as
heed makes them, and the loop of a recipe (AdamW, schedule, clipping), which prints steps per second and the loss on the
development set as JSON.
"""
import argparse
import json
import math
import random
import time
import tomllib
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F


def arguments(description, recipe):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--recipe", default=Path(__file__).parents[2] / "recipes" / recipe)
    parser.add_argument("--data", required=True, help="HEED_DATA: the folder that the recipe's paths begin with")
    parser.add_argument("--run", help="an output folder of heed train, whose tokenizer is used")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--skip", type=int, default=3, help="steps at the start that are not timed")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--bf16", action="store_true", help="torch.autocast with bfloat16 in training")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    given.recipe = tomllib.loads(Path(given.recipe).read_text())
    torch.manual_seed(given.recipe["train"].get("seed", 1))
    given.path = lambda key: given.recipe["data"][key].replace("${HEED_DATA}", given.data)
    return given


class Attention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)

    def forward(self, x, memory=None, mask=None, causal=False):
        source = x if memory is None else memory
        split = lambda y: y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, (k, v) = split(self.q(x)), (split(y) for y in self.kv(source).chunk(2, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal,
                                           dropout_p=self.dropout if self.training else 0.0)
        return self.out(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """A layer of a Transformer, with the norms before the sublayers or after the sums."""

    def __init__(self, width, heads, inner, activation, dropout, attention_dropout=0.0, pre=False, crosses=False):
        super().__init__()
        self.pre, self.activation, self.drop = pre, activation, nn.Dropout(dropout)
        self.attention = Attention(width, heads, attention_dropout)
        self.cross = Attention(width, heads, attention_dropout) if crosses else None
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if crosses else 2))

    def forward(self, x, mask=None, causal=False, memory=None, memory_mask=None):
        parts = [lambda y: self.attention(y, mask=mask, causal=causal)]
        if self.cross is not None:
            parts.append(lambda y: self.cross(y, memory, memory_mask))
        parts.append(lambda y: self.down(self.activation(self.up(y))))
        for part, norm in zip(parts, self.norms):
            x = x + self.drop(part(norm(x))) if self.pre else norm(x + self.drop(part(x)))
        return x


def pad(rows, fill=0):
    width = max(map(len, rows))
    return torch.tensor([row + [fill] * (width - len(row)) for row in rows])


def batches(lengths, most, shuffle=True):
    """For ever (or once, in order): lists of rows whose number times the longest is at most `most`."""
    while True:
        order = list(range(len(lengths)))
        if shuffle:
            random.shuffle(order)
        order.sort(key=lambda i: lengths[i])
        plan, batch = [], []
        for i in order:
            if batch and (len(batch) + 1) * lengths[i] > most:
                plan.append(batch)
                batch = []
            batch.append(i)
        plan.append(batch)
        if not shuffle:
            yield from plan
            return
        random.shuffle(plan)
        yield from plan


def rate(step, steps, settings):
    top, least, warmup = settings["lr"], settings.get("min_lr", 0.0), settings.get("warmup", 0.1)
    warmup = round(warmup * steps) if warmup < 1 else warmup
    if step < warmup:
        return top * step / warmup
    part = min(1.0, (step - warmup) / max(1, steps - warmup))
    return {"constant": lambda: top, "linear": lambda: least + (top - least) * (1 - part),
            "cosine": lambda: least + (top - least) * (1 + math.cos(math.pi * part)) / 2,
            "inverse_sqrt": lambda: max(least, top * math.sqrt(max(warmup, 1) / step))}[settings["schedule"]]()


def train(given, model, next_loss, development_losses):
    """next_loss() gives the sum of a batch's losses and the number of its targets, and so do the development set's."""
    settings = given.recipe["train"]
    matrices, others = ([p for p in model.parameters() if (p.dim() > 1) == wanted] for wanted in (True, False))
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": settings.get("weight_decay", 0.0)},
                                   {"params": others, "weight_decay": 0.0}], betas=settings["betas"], eps=settings["eps"])
    model.train()
    for step in range(1, given.steps + 1):
        if step == given.skip + 1:
            start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=given.bf16):
            loss, targets = next_loss()
        (loss / targets).backward()
        if settings.get("clip_norm", 0) > 0:
            nn.utils.clip_grad_norm_(model.parameters(), settings["clip_norm"])
        for group in optimizer.param_groups:
            group["lr"] = rate(step, given.steps, settings)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    seconds = time.perf_counter() - start
    model.eval()
    with torch.no_grad():
        sums = [(loss.item(), targets) for loss, targets in development_losses()]
    print(json.dumps({"steps": given.steps, "steps_per_second": (given.steps - given.skip) / seconds,
                      "parameters": sum(p.numel() for p in model.parameters()),
                      "dev_loss": sum(loss for loss, _ in sums) / sum(targets for _, targets in sums)}))
