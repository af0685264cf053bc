"""LlamaIndex: an embedding model."""
from __future__ import annotations

from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from pydantic import PrivateAttr

import heed


class HeedEmbedding(BaseEmbedding):
    """`HeedEmbedding(model_name="all-MiniLM-L6-v2")`; query_prompt_name chooses a prompt of the model for queries."""

    query_prompt_name: str | None = None
    _model: Any = PrivateAttr(default=None)

    def __init__(self, model_name: str, **settings: Any) -> None:
        super().__init__(model_name=model_name, **settings)
        self._model = heed.load(model_name)

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._model.encode(query, prompt_name=self.query_prompt_name).tolist()

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._model.encode(text).tolist()

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._model.encode(texts).tolist()
