"""Other libraries with models of heed; each test runs where its library is installed."""
import asyncio

import numpy as np
import pytest

from conftest import FIXTURES, MODELS

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


def test_a_notebook_of_transformer_lens():
    """The calls of its main demo, in their order, on a model of characters."""
    torch = pytest.importorskip("torch")
    from functools import partial

    from heed.integrations import transformer_lens
    from heed.integrations.transformer_lens import HookedTransformer, utils
    from heed.integrations.transformer_lens.hook_points import HookPoint
    model = HookedTransformer.from_pretrained("shakespeare", device=utils.get_device())
    assert (model.cfg.n_layers, model.cfg.n_heads, model.cfg.d_model, model.cfg.d_head, model.cfg.n_ctx) == (4, 6, 192, 32, 256)

    text = "ROMEO:\nBut soft, what light"
    loss = model(text, return_type="loss")
    tokens, names = model.to_tokens(text), model.to_str_tokens(text)
    assert tokens.shape == (1, len(text)) and names == list(text) == model.to_str_tokens(tokens) and model.to_string(tokens[0]) == text
    assert model.to_single_token("R") == tokens[0, 0] and model.to_single_str_token(int(tokens[0, 0])) == "R"
    assert model.get_token_position("t", tokens) == text.index("t") and model.get_token_position("t", text, mode="last") == len(text) - 1
    with pytest.raises(ValueError, match="one token"):
        model.to_single_token("RO")

    logits, cache = model.run_with_cache(tokens, remove_batch_dim=True)
    pattern = cache["pattern", 0, "attn"]
    assert pattern.shape == (6, len(text), len(text)) and torch.equal(pattern, cache["blocks.0.attn.hook_pattern"])
    assert torch.equal(cache["resid_post", -1], cache["blocks.3.hook_resid_post"]) and cache["embed"].shape == (len(text), 192)
    assert cache.stack_activation("pattern").shape == (4, 6, len(text), len(text))
    name = "blocks.0.attn.hook_pattern"
    stream, only = model.run_with_cache(tokens, remove_batch_dim=True, stop_at_layer=1, names_filter=[name])
    assert list(only) == [name] and torch.equal(only[name], pattern) and torch.equal(stream[0], cache["resid_pre", 1])
    expected = torch.nn.functional.cross_entropy(logits[0, :-1], tokens[0, 1:])
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)

    def head_ablation_hook(value, hook):
        value[:, :, 2, :] = 0.0
        return value

    ablated = model.run_with_hooks(tokens, return_type="loss", fwd_hooks=[(utils.get_act_name("v", 0), head_ablation_hook)])
    assert ablated.item() != pytest.approx(loss.item(), abs=1e-3)
    with model.hooks(fwd_hooks=[(utils.get_act_name("v", 0), head_ablation_hook)]):
        assert torch.equal(model(tokens, return_type="loss"), ablated)
        assert torch.equal(model.run_with_cache(tokens, names_filter="blocks.0.attn.hook_v")[1]["v", 0][:, :, 2], torch.zeros(1, len(text), 32))
    assert torch.equal(model(tokens, return_type="loss"), loss)
    model.add_hook("blocks.0.attn.hook_v", head_ablation_hook)
    assert torch.equal(model(tokens, return_type="loss"), ablated)
    model.reset_hooks()

    clean, corrupted = model.to_tokens("ROMEO:"), model.to_tokens("JULIE:")
    answers = model.to_single_token("\n"), model.to_single_token("I")

    def difference(logits):
        return logits[0, -1, answers[0]] - logits[0, -1, answers[1]]

    clean_logits, clean_cache = model.run_with_cache(clean)

    def patch(stream, hook: HookPoint, position: int):
        stream[:, position, :] = clean_cache[hook.name][:, position, :]
        return stream

    result = torch.zeros((model.cfg.n_layers, clean.shape[1]), device=model.cfg.device)
    for layer in range(model.cfg.n_layers):
        for position in range(clean.shape[1]):
            hooks = [(utils.get_act_name("resid_pre", layer), partial(patch, position=position))]
            result[layer, position] = difference(model.run_with_hooks(corrupted, fwd_hooks=hooks)).detach()
    import heed
    report = heed.patch(model.model, "ROMEO:", "JULIE:", token="\n", other="I", show_progress_bar=False)
    np.testing.assert_allclose(result, report.arrays["patched"].values, atol=1e-4)

    torch.manual_seed(0)
    half = torch.randint(0, 60, (3, 20))
    repeated = torch.cat([half, half], 1)
    assert model.loss_fn(model(repeated), repeated, per_token=True).shape == (3, 39)
    scores = torch.zeros((model.cfg.n_layers, model.cfg.n_heads))

    def induction_score_hook(pattern, hook):
        scores[hook.layer(), :] = pattern.diagonal(dim1=-2, dim2=-1, offset=1 - 20).mean((0, -1))

    assert model.run_with_hooks(repeated, return_type=None, fwd_hooks=[(lambda name: name.endswith("pattern"), induction_score_hook)]) is None
    assert 0 < scores.max() < 1 and (scores > 0).all()
    text = model.generate("ROMEO:", max_new_tokens=5, temperature=0.7, verbose=False)
    assert text.startswith("ROMEO:") and len(text) == 11
    assert model.generate(clean, max_new_tokens=5, do_sample=False).shape == (1, 11)
    assert transformer_lens.utils.get_act_name("post", 2) == "blocks.2.mlp.hook_post"
    assert model.to_tokens(["ROMEO:", "A"]).shape == (2, 6)
    with pytest.raises(ValueError, match="no token that begins"):
        model.to_tokens("A", prepend_bos=True)


@pytest.mark.parametrize("name", ["shakespeare", "preferences/llama"])
def test_weights_are_those_of_transformer_lens(name, monkeypatch):
    """A GPT-2 with biases and positions, a Llama with gates and shared keys; version 4 has no biases that are zeros, and shared keys once."""
    torch = pytest.importorskip("torch")
    transformer_lens = pytest.importorskip("transformer_lens")
    transformers = pytest.importorskip("transformers")
    from heed.integrations.transformer_lens import FactoredMatrix, HookedTransformer
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = str(MODELS / name if name == "shakespeare" else FIXTURES / "train" / name)
    source = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    theirs = transformer_lens.TransformerBridge.boot_transformers(folder, hf_model=source, device="cpu", dtype=torch.float32)
    ours, heads = HookedTransformer.from_pretrained_no_processing(folder), theirs.cfg.n_heads
    for weight in ("W_E", "W_U", "b_U", "W_Q", "W_O", "W_in", "W_out"):
        assert torch.equal(getattr(ours, weight), getattr(theirs, weight)), weight
    for weight in ("W_K", "W_V"):
        expected = getattr(theirs, weight)
        assert torch.equal(getattr(ours, weight), expected.repeat_interleave(heads // expected.shape[1], 1)), weight
    biases = {"b_Q": ours.W_Q.shape[:2] + (ours.cfg.d_head,), "b_K": None, "b_V": None, "b_O": (ours.cfg.n_layers, ours.cfg.d_model),
              "b_in": (ours.cfg.n_layers, ours.W_in.shape[-1]), "b_out": None}
    for bias, shape in biases.items():
        if name == "shakespeare":
            assert torch.equal(getattr(ours, bias), getattr(theirs, bias)), bias
        else:
            assert not getattr(ours, bias).any() and (shape is None or getattr(ours, bias).shape == shape), bias
    if name == "shakespeare":
        assert torch.equal(ours.W_pos, theirs.W_pos) and ours.W_gate is None
    else:
        assert torch.equal(ours.W_gate, theirs.W_gate) and not hasattr(ours, "W_pos")
    assert torch.equal(ours.blocks[1].attn.W_Q, ours.W_Q[1]) and torch.equal(ours.blocks[1].mlp.b_out, ours.b_out[1])

    for mine, other in ((ours.QK, theirs.QK), (ours.OV, theirs.OV)):
        assert isinstance(mine, FactoredMatrix) and torch.equal(mine.AB, other.AB) and torch.equal(mine.T.AB, other.T.AB)
        torch.testing.assert_close(mine.S, other.S, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(mine.norm(), other.norm(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(mine.U @ torch.diag_embed(mine.S) @ mine.V.mT, mine.AB, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(mine.eigenvalues.sum(-1).real, other.eigenvalues.sum(-1).real, rtol=1e-4, atol=1e-3)
        torch.testing.assert_close((ours.W_U.mT @ mine[1, 0] @ ours.W_U).AB, (theirs.W_U.mT @ other[1, 0] @ theirs.W_U).AB, rtol=1e-4, atol=1e-3)
        torch.testing.assert_close((mine[0, 1] @ ours.W_U[:, 3]), other.AB[0, 1] @ theirs.W_U[:, 3], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close((ours.OV[1] @ mine[0]).AB, theirs.OV.AB[1] @ other.AB[0], rtol=1e-4, atol=1e-3)
    attention = ours.blocks[0].attn
    assert torch.equal(attention.OV.AB, ours.OV.AB[0]) and torch.equal(attention.QK.AB, ours.QK.AB[0])
    with pytest.raises(AttributeError, match="W_X"):
        ours.W_X
    with pytest.raises(AttributeError, match="W_X: expected W_ or b_ with one of Q, K, V, O"):
        attention.W_X
