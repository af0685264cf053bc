"""recipes/multi30k-en-de-tiny.toml in PyTorch: an encoder-decoder with Marian's layers, with the tokenizer that heed
trained.

    python bench/peers/train_multi30k.py --data $HEED_DATA --run OUTPUT_OF_HEED_TRAIN --steps 20
"""
import json
import math
import random

import sentencepiece
import torch
from torch import nn
from torch.nn import functional as F

from train_torch import Layer, arguments, batches, pad, train


class Marian(nn.Module):
    def __init__(self, words, config, padding):
        super().__init__()
        width, self.padding = config["d_model"], padding
        layer = lambda crosses: Layer(width, config["heads"], config["ffn"], nn.ReLU(), config["dropout"], crosses=crosses)
        self.words, self.drop = nn.Embedding(words, width, padding_idx=padding), nn.Dropout(config["dropout"])
        self.encoder = nn.ModuleList(layer(False) for _ in range(config["encoder_layers"]))
        self.decoder = nn.ModuleList(layer(True) for _ in range(config["decoder_layers"]))
        self.bias = nn.Parameter(torch.zeros(words), requires_grad=False)
        nn.init.normal_(self.words.weight, std=width ** -0.5)
        place = torch.arange(config["max_positions"])[:, None] * 10000.0 ** (-torch.arange(0, width, 2) / width)
        self.register_buffer("places", torch.cat([place.sin(), place.cos()], -1))

    def embed(self, ids):
        return self.drop(self.words(ids) * math.sqrt(self.words.weight.shape[1]) + self.places[:ids.shape[1]])

    def forward(self, source, target):
        mask = (source != self.padding)[:, None, None, :]
        memory, y = self.embed(source), self.embed(target)
        for layer in self.encoder:
            memory = layer(memory, mask=mask)
        for layer in self.decoder:
            y = layer(y, causal=True, memory=memory, memory_mask=mask)
        return F.linear(y, self.words.weight, self.bias)


given = arguments(__doc__, "multi30k-en-de-tiny.toml")
random.seed(1)
pieces = sentencepiece.SentencePieceProcessor(model_file=given.run + "/source.spm")
ids = json.load(open(given.run + "/vocab.json"))
end, unknown, padding = ids["</s>"], ids["<unk>"], ids["<pad>"]
encode = lambda text: [ids.get(piece, unknown) for piece in pieces.encode(text, out_type=str)] + [end]
read = lambda key: [encode(line.strip()) for line in open(given.path(key), encoding="utf-8")]
pairs, dev = (list(zip(read(part + "_source"), read(part + "_target"))) for part in ("train", "dev"))
model = Marian(len(ids), given.recipe["model"], padding)
most = given.recipe["train"]["batch_tokens"]


def loss_of(chosen):
    source, labels = pad([s for s, _ in chosen], padding), pad([t for _, t in chosen], -100)
    target = pad([[padding] + t[:-1] for _, t in chosen], padding)
    smoothing = given.recipe["train"]["label_smoothing"] if model.training else 0.0
    loss = F.cross_entropy(model(source, target).flatten(0, 1), labels.flatten(), label_smoothing=smoothing, reduction="sum")
    return loss, int((labels != -100).sum())


longest = lambda part: [max(len(s), len(t)) for s, t in part]
plan = batches(longest(pairs), most)
train(given, model, lambda: loss_of([pairs[i] for i in next(plan)]),
      lambda: (loss_of([dev[i] for i in batch]) for batch in batches(longest(dev), most, False)))
