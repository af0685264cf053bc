"""How well a model of vectors finds what belongs to a query: recall and MRR over JSON lines of anchor and positive.

    python examples/python/search_scores.py pairs.jsonl MODEL...
"""
import json
import sys

import numpy as np

import heed

rows = [json.loads(line) for line in open(sys.argv[1])]
passages = list(dict.fromkeys(row["positive"] for row in rows))
place = {passage: i for i, passage in enumerate(passages)}
right = np.array([place[row["positive"]] for row in rows])
for name in sys.argv[2:]:
    model = heed.load(name)
    scores = model.similarity(model.encode([row["anchor"] for row in rows]), model.encode(passages))
    rank = (scores > scores[np.arange(len(right)), right][:, None]).sum(1)
    print(f"{name}: recall@1 {100 * (rank < 1).mean():.1f}, recall@10 {100 * (rank < 10).mean():.1f}, "
          f"MRR@10 {100 * np.where(rank < 10, 1 / (rank + 1), 0).mean():.1f}, {len(rows)} queries, {len(passages)} passages")
