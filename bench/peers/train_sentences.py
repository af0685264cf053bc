"""recipes/sentences.toml in PyTorch: a ModernBERT that classifies sentences, with the tokenizer that heed trained.

    python bench/peers/train_sentences.py --data $HEED_DATA --run OUTPUT_OF_HEED_TRAIN --steps 20
"""
import random

import torch
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional as F

from train_torch import arguments, batches, pad, train


class Layer(nn.Module):
    def __init__(self, config, theta, first):
        super().__init__()
        width, inner, self.heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
        norm = lambda: nn.LayerNorm(width, bias=False)
        self.norms = nn.ModuleList([nn.Identity() if first else norm(), norm()])
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)
        self.attention_dropout, self.drop = config["attention_dropout"], nn.Dropout(config["mlp_dropout"])
        self.drop_out = nn.Dropout(config["attention_dropout"])
        size = width // self.heads
        angles = torch.arange(config["max_position_embeddings"])[:, None] * theta ** (-torch.arange(0, size, 2) / size)
        self.register_buffer("cos", torch.cat([angles.cos()] * 2, -1))
        self.register_buffer("sin", torch.cat([-angles.sin(), angles.sin()], -1))

    def rotate(self, x):
        length = x.shape[2]
        return x * self.cos[:length] + x.roll(x.shape[-1] // 2, -1) * self.sin[:length]

    def forward(self, x, mask):
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, attn_mask=mask,
                                           dropout_p=self.attention_dropout if self.training else 0.0)
        x = x + self.drop_out(self.out(y.transpose(1, 2).flatten(2)))
        value, gate = self.up(self.norms[1](x)).chunk(2, -1)
        return x + self.down(self.drop(F.gelu(value) * gate))


class ModernBert(nn.Module):
    def __init__(self, words, labels, config):
        super().__init__()
        width, every = config["hidden_size"], config["global_attn_every_n_layers"]
        self.words, self.norm = nn.Embedding(words, width), nn.LayerNorm(width, bias=False)
        self.layers = nn.ModuleList(Layer(config, 1e4 if i % every else 1.6e5, i == 0)
                                    for i in range(config["num_hidden_layers"]))
        self.last, self.head_norm = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.pool, self.classify = nn.Linear(width, width, bias=False), nn.Linear(width, labels)
        self.drop, self.head_drop = nn.Dropout(config["embedding_dropout"]), nn.Dropout(config["classifier_dropout"])
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, mask):
        x = self.drop(self.norm(self.words(ids)))
        for layer in self.layers:  # rows are no longer than a local layer's window of 64 to each side
            x = layer(x, mask[:, None, None, :])
        x = (self.last(x) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return self.classify(self.head_drop(self.head_norm(F.gelu(self.pool(x)))))


given = arguments(__doc__, "sentences.toml")
random.seed(1)
tokenizer = Tokenizer.from_file(given.run + "/tokenizer.json")
tokenizer.enable_truncation(given.recipe["model"]["max_position_embeddings"])
lines = [line.split(maxsplit=1) for line in open(given.path("train"), encoding="utf-8") if line.strip()]
random.shuffle(lines)
names = sorted({label for label, _ in lines})
rows = [(tokenizer.encode(text).ids, names.index(label)) for label, text in lines]
size = given.recipe["data"]["dev_size"]
dev, rows = rows[:size], rows[size:]
model = ModernBert(tokenizer.get_vocab_size(), len(names), given.recipe["model"])
most = given.recipe["train"]["batch_tokens"]


def loss_of(chosen):
    ids = pad([row for row, _ in chosen])
    mask = pad([[1] * len(row) for row, _ in chosen]).bool()
    return F.cross_entropy(model(ids, mask), torch.tensor([label for _, label in chosen]), reduction="sum"), len(chosen)


plan = batches([len(row) for row, _ in rows], most)
train(given, model, lambda: loss_of([rows[i] for i in next(plan)]),
      lambda: (loss_of([dev[i] for i in batch]) for batch in batches([len(row) for row, _ in dev], most, False)))
