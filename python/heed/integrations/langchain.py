"""LangChain: embeddings and a chat model."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.embeddings import Embeddings
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.utils import convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import PrivateAttr

import heed


class HeedEmbeddings(Embeddings):
    """Vectors by a model of heed: `HeedEmbeddings("all-MiniLM-L6-v2")`; further arguments are those of Model.encode()."""

    def __init__(self, model: str, *, query_prompt_name: str | None = None, **encode: Any) -> None:
        self._model = heed.load(model)
        self._query = query_prompt_name
        self._encode = encode

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._model.encode(texts, **self._encode).tolist() if texts else []

    def embed_query(self, text: str) -> list[float]:
        chosen = {**self._encode, **({"prompt_name": self._query} if self._query else {})}
        return self._model.encode(text, **chosen).tolist()


class ChatHeed(BaseChatModel):
    """A chat model of heed: `ChatHeed(model="SmolLM2-135M-Instruct", settings={"max_new_tokens": 100})`."""

    model: str
    settings: dict[str, Any] = {}
    _opened: Any = PrivateAttr(default=None)

    def model_post_init(self, context: Any) -> None:
        self._opened = heed.load(self.model)

    @property
    def _llm_type(self) -> str:
        return "heed"

    def _arguments(self, messages: list[BaseMessage], stop: list[str] | None, given: dict[str, Any]) -> dict[str, Any]:
        return {"messages": convert_to_openai_messages(messages), "stop_strings": stop or (), **self.settings, **given}

    def _generate(self, messages: list[BaseMessage], stop: list[str] | None = None,
                  run_manager: CallbackManagerForLLMRun | None = None, **given: Any) -> ChatResult:
        text = self._opened.chat(**self._arguments(messages, stop, given))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=text))])

    def _stream(self, messages: list[BaseMessage], stop: list[str] | None = None,
                run_manager: CallbackManagerForLLMRun | None = None, **given: Any) -> Iterator[ChatGenerationChunk]:
        for part in self._opened.chat(stream=True, **self._arguments(messages, stop, given)):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=part))
            if run_manager is not None:
                run_manager.on_llm_new_token(part, chunk=chunk)
            yield chunk
