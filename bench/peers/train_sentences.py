"""recipes/sentences.toml in PyTorch: a BERT that classifies sentences, with the tokenizer that heed trained.

    python bench/peers/train_sentences.py --data $HEED_DATA --run OUTPUT_OF_HEED_TRAIN --steps 20
"""
import random

import torch
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional as F

from train_torch import Layer, arguments, batches, pad, train


class Bert(nn.Module):
    def __init__(self, words, labels, config):
        super().__init__()
        width, drop = config["hidden_size"], config["hidden_dropout_prob"]
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(config["max_position_embeddings"], width)
        self.types = nn.Embedding(2, width)
        self.layers = nn.ModuleList(Layer(width, config["num_attention_heads"], config["intermediate_size"], nn.GELU(),
                                          drop, config["attention_probs_dropout_prob"])
                                    for _ in range(config["num_hidden_layers"]))
        self.norm, self.drop = nn.LayerNorm(width, 1e-12), nn.Dropout(drop)
        self.pool, self.classify = nn.Linear(width, width), nn.Linear(width, labels)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, mask):
        x = self.words(ids) + self.places.weight[:ids.shape[1]] + self.types.weight[0]
        x = self.drop(self.norm(x))
        for layer in self.layers:
            x = layer(x, mask=mask[:, None, None, :])
        return self.classify(self.drop(torch.tanh(self.pool(x[:, 0]))))


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
model = Bert(tokenizer.get_vocab_size(), len(names), given.recipe["model"])
most = given.recipe["train"]["batch_tokens"]


def loss_of(chosen):
    ids = pad([row for row, _ in chosen])
    mask = pad([[1] * len(row) for row, _ in chosen]).bool()
    return F.cross_entropy(model(ids, mask), torch.tensor([label for _, label in chosen]), reduction="sum"), len(chosen)


plan = batches([len(row) for row, _ in rows], most)
train(given, model, lambda: loss_of([rows[i] for i in next(plan)]),
      lambda: (loss_of([dev[i] for i in batch]) for batch in batches([len(row) for row, _ in dev], most, False)))
