"""EleutherAI's lm-evaluation-harness: the model `heed`.

    import heed.integrations.lm_eval, lm_eval
    lm_eval.simple_evaluate(model="heed", model_args="pretrained=SmolLM2-135M-Instruct", tasks=["hellaswag"])
"""
from __future__ import annotations

from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

import heed


@register_model("heed")
class HeedLM(LM):  # type: ignore[misc]
    def __init__(self, pretrained: str, dtype: Any = "float32", batch_size: Any = 1, device: Any = None,
                 max_batch_size: Any = None, **_: Any) -> None:
        super().__init__()
        self._model = heed.load(pretrained, dtype=dtype)
        self._longest = self._model._opened.max_positions

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        pairs = []
        for request in requests:
            context, continuation = self._model._split(*request.args)
            if self._longest is not None:  # as the harness does: the end of the context stays
                context = context[-max(1, self._longest + 1 - len(continuation)):]
            pairs.append((context, continuation))
        return self._model.loglikelihood(pairs)

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        totals = []
        for request in requests:
            first, ids = self._model._split("", request.args[0])
            windows = get_rolling_token_windows(ids, first[0], self._longest or len(ids) + 1, 1)
            totals.append(sum(nats for nats, _ in self._model.loglikelihood([make_disjoint_window(one) for one in windows])))
        return totals

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        answers = []
        for request in requests:
            context, settings = request.args
            settings = dict(settings)
            stops = settings.pop("until", [])
            stops = [stops] if isinstance(stops, str) else list(stops)
            new_tokens = settings.pop("max_gen_toks", 256)
            text = self._model.generate(context, stop_strings=[stop for stop in stops if stop], max_new_tokens=new_tokens,
                                        **settings)
            for stop in stops:
                if stop:
                    text = text.split(stop)[0]
            answers.append(text)
        return answers
