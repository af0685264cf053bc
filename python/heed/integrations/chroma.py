"""Chroma: an embedding function, which collections store by name and settings."""
from __future__ import annotations

from typing import Any

from chromadb.api.types import Documents, EmbeddingFunction, Embeddings
from chromadb.utils.embedding_functions import register_embedding_function

import heed


@register_embedding_function
class HeedEmbeddingFunction(EmbeddingFunction[Documents]):
    """`client.create_collection("docs", embedding_function=HeedEmbeddingFunction("all-MiniLM-L6-v2"))`."""

    def __init__(self, model: str, normalize_embeddings: bool = False) -> None:
        self._name = model
        self._normalize = normalize_embeddings
        self._model = heed.load(model)

    def __call__(self, input: Documents) -> Embeddings:
        return list(self._model.encode(list(input), normalize_embeddings=self._normalize))

    @staticmethod
    def name() -> str:
        return "heed"

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> HeedEmbeddingFunction:
        return HeedEmbeddingFunction(config["model"], config["normalize_embeddings"])

    def get_config(self) -> dict[str, Any]:
        return {"model": self._name, "normalize_embeddings": self._normalize}
