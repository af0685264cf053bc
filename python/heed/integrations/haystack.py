"""Haystack: embedders of texts and documents."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict

import heed


class _Embedder:
    def __init__(self, model: str, prompt_name: str | None = None, normalize_embeddings: bool = False) -> None:
        self.model = model
        self.prompt_name = prompt_name
        self.normalize_embeddings = normalize_embeddings
        self._opened: Any = None

    def warm_up(self) -> None:
        if self._opened is None:
            self._opened = heed.load(self.model)

    def _vectors(self, texts: list[str]) -> list[list[float]]:
        self.warm_up()
        return self._opened.encode(texts, prompt_name=self.prompt_name,
                                   normalize_embeddings=self.normalize_embeddings).tolist() if texts else []

    def to_dict(self) -> dict[str, Any]:
        return default_to_dict(self, model=self.model, prompt_name=self.prompt_name,
                               normalize_embeddings=self.normalize_embeddings)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        return default_from_dict(cls, data)


@component
class HeedTextEmbedder(_Embedder):
    """The vector of a query."""

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        return {"embedding": self._vectors([text])[0]}


@component
class HeedDocumentEmbedder(_Embedder):
    """Documents with the vectors of their contents."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        vectors = self._vectors([document.content or "" for document in documents])
        return {"documents": [replace(document, embedding=vector) for document, vector in zip(documents, vectors)]}
