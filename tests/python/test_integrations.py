"""Other libraries with models of heed; each test runs where its library is installed."""
import asyncio

import numpy as np
import pytest

from conftest import FIXTURES

TEXTS = ["A great film.", "Do not watch it."]


def test_langchain(masked):
    pytest.importorskip("langchain_core")
    from heed.integrations.langchain import HeedEmbeddings
    model = HeedEmbeddings("reviews-mlm", normalize_embeddings=True)
    np.testing.assert_allclose(model.embed_documents(TEXTS), masked.encode(TEXTS, normalize_embeddings=True), rtol=1e-6)
    assert len(model.embed_query(TEXTS[0])) == 256 and model.embed_documents([]) == []


def test_langchain_chat(chat_model):
    pytest.importorskip("langchain_core")
    from langchain_core.messages import HumanMessage
    from heed.integrations.langchain import ChatHeed
    model = ChatHeed(model=chat_model, settings={"max_new_tokens": 6})
    whole = model.invoke([HumanMessage("Hi")]).content
    assert "".join(chunk.content for chunk in model.stream([HumanMessage("Hi")])) == whole


def test_chroma(masked):
    chromadb = pytest.importorskip("chromadb")
    from heed.integrations.chroma import HeedEmbeddingFunction
    client = chromadb.EphemeralClient()
    collection = client.get_or_create_collection("films", embedding_function=HeedEmbeddingFunction("reviews-mlm"))
    collection.add(ids=["a", "b"], documents=TEXTS)
    assert collection.query(query_texts=["A wonderful movie."], n_results=1)["ids"] == [["a"]]


def test_llama_index(masked):
    pytest.importorskip("llama_index.core")
    from heed.integrations.llama_index import HeedEmbedding
    model = HeedEmbedding("reviews-mlm")
    np.testing.assert_allclose(model.get_text_embedding_batch(TEXTS), masked.encode(TEXTS), rtol=1e-6)
    assert asyncio.run(model.aget_query_embedding(TEXTS[0])) == model.get_query_embedding(TEXTS[0])


def test_haystack(masked):
    pytest.importorskip("haystack")
    from haystack import Document
    from heed.integrations.haystack import HeedDocumentEmbedder, HeedTextEmbedder
    embedder = HeedDocumentEmbedder("reviews-mlm")
    documents = embedder.run([Document(content=text) for text in TEXTS])["documents"]
    np.testing.assert_allclose([one.embedding for one in documents], masked.encode(TEXTS), rtol=1e-6)
    again = HeedTextEmbedder.from_dict(HeedTextEmbedder("reviews-mlm").to_dict())
    assert again.run(TEXTS[0])["embedding"] == documents[0].embedding


def test_lm_evaluation_harness(decoder):
    pytest.importorskip("lm_eval")
    from lm_eval.api.instance import Instance
    from heed.integrations.lm_eval import HeedLM
    model = HeedLM("shakespeare")

    def asked(*arguments):
        return Instance(request_type="loglikelihood", doc={}, arguments=arguments, idx=0)

    many = model.loglikelihood([asked("ROMEO:", "\nBut soft"), asked("JULIET:", "\nO Romeo")])
    assert many[0] == model.loglikelihood([asked("ROMEO:", "\nBut soft")])[0] == decoder.loglikelihood([("ROMEO:", "\nBut soft")])[0]
    with pytest.raises(ValueError, match="no token that begins one"):
        model.loglikelihood_rolling([asked("But soft")])
    rolling = HeedLM(str(FIXTURES / "train" / "conversations"))
    assert rolling.loglikelihood_rolling([asked("some words " * 400)])[0] < 0
    text, = model.generate_until([asked("ROMEO:", {"until": ["\n\n"], "max_gen_toks": 20, "do_sample": False})])
    assert "\n\n" not in text


def test_mteb():
    pytest.importorskip("mteb")
    from heed.integrations.mteb import HeedEncoder
    model = HeedEncoder("reviews-mlm")
    assert model.encode([{"text": TEXTS}, {"text": TEXTS[:1]}]).shape == (3, 256)
