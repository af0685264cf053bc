"""recipes/shakespeare-char-cpu.toml in PyTorch: a character-level GPT-2.

    python bench/peers/train_shakespeare.py --data $HEED_DATA --steps 20
"""
import torch
from torch import nn
from torch.nn import functional as F

from train_torch import Layer, arguments, train


class Gpt2(nn.Module):
    def __init__(self, words, config):
        super().__init__()
        width = config["n_embd"]
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(config["n_positions"], width)
        self.layers = nn.ModuleList(Layer(width, config["n_head"], 4 * width, nn.GELU(), config["resid_pdrop"],
                                          config["attn_pdrop"], pre=True) for _ in range(config["n_layer"]))
        self.drop, self.norm = nn.Dropout(config["embd_pdrop"]), nn.LayerNorm(width)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids):
        x = self.drop(self.words(ids) + self.places.weight[:ids.shape[1]])
        for layer in self.layers:
            x = layer(x, causal=True)
        return F.linear(self.norm(x), self.words.weight)


given = arguments(__doc__, "shakespeare-char-cpu.toml")
text = open(given.path("train")).read()
ids = {c: i for i, c in enumerate(sorted(set(text)))}
corpus = torch.tensor([ids[c] for c in text])
split = int(len(corpus) * (1 - given.recipe["data"]["dev_share"]))
context, rows = given.recipe["task"]["context"], given.recipe["train"]["batch_tokens"] // given.recipe["task"]["context"]
model = Gpt2(len(ids), given.recipe["model"])


def loss_of(part, begins):
    x = torch.stack([part[i:i + context] for i in begins])
    y = torch.stack([part[i + 1:i + 1 + context] for i in begins])
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum"), y.numel()


def development():
    part = corpus[split:]
    places = range(0, len(part) - context - 1, context)
    for i in range(0, len(places), rows):
        yield loss_of(part, places[i:i + rows])


train(given, model, lambda: loss_of(corpus[:split], torch.randint(split - context - 1, (rows,))), development)
