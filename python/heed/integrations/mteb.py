"""MTEB: a model of heed as an encoder.

    import mteb
    from heed.integrations.mteb import HeedEncoder
    mteb.evaluate(HeedEncoder("all-MiniLM-L6-v2"), mteb.get_tasks(tasks=["STSBenchmark"]))
"""
from __future__ import annotations

from typing import Any

import numpy as np
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ModelMeta
from mteb.types import PromptType

import heed


class HeedEncoder(AbsEncoder):  # type: ignore[misc]
    def __init__(self, model: str, revision: str | None = None, **encode: Any) -> None:
        self._model = heed.load(model)
        self._encode = encode
        self.mteb_model_meta = ModelMeta.create_empty(overwrites={"name": f"heed/{model.rstrip('/').split('/')[-1]}"})

    def encode(self, inputs: Any, *, task_metadata: Any = None, hf_split: str = "", hf_subset: str = "",
               prompt_type: PromptType | None = None, **_: Any) -> Any:
        texts = [text for batch in inputs for text in batch["text"]]
        name = None if prompt_type is None else prompt_type.value
        prompt = name if name in self._model.prompts else None
        return np.asarray(self._model.encode(texts, prompt_name=prompt, **self._encode))
