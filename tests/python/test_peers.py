"""The same numbers as other libraries, where these are installed."""
import numpy as np
import pytest

import heed
from conftest import FIXTURES, MODELS

TEXT = "ROMEO:\nBut soft, what light"


def test_sentence_transformers():
    library = pytest.importorskip("sentence_transformers")
    folder = FIXTURES / "train" / "comparison" / "encoder"
    other, model = library.SentenceTransformer(str(folder), device="cpu"), heed.load(folder)
    texts = ["a b c", "some words of a text", "b"]
    np.testing.assert_allclose(model.encode(texts), other.encode(texts), atol=1e-5)
    np.testing.assert_allclose(model.encode(texts, truncate_dim=8, normalize_embeddings=True),
                               other.encode(texts, truncate_dim=8, normalize_embeddings=True), atol=1e-5)


def test_transformer_lens(decoder):
    pytest.importorskip("transformer_lens")
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from transformer_lens.model_bridge import TransformerBridge
    folder = str(MODELS / "shakespeare")
    plain = transformers.GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    other = TransformerBridge.boot_transformers(folder, hf_model=plain, device="cpu")
    ids = torch.tensor([decoder.tokenizer.encode(TEXT).ids])
    logits, cache = other.run_with_cache(ids)
    own_logits, own = decoder.run_with_cache({"input_ids": ids})
    np.testing.assert_allclose(own_logits, logits.detach().numpy(), atol=1e-4)
    compared = [name for name in own if name in cache]
    assert len(compared) >= 4 * 12
    for name in compared:
        expected = np.broadcast_to(cache[name].detach().numpy(), own[name].shape)
        finite = np.isfinite(expected) & np.isfinite(own[name])
        np.testing.assert_allclose(own[name][finite], expected[finite], atol=1e-4, err_msg=name)

    def without(z, hook):
        z[:, :, 2] = 0
        return z

    hooks = [("blocks.1.attn.hook_z", without)]
    np.testing.assert_allclose(decoder.run_with_hooks({"input_ids": ids}, fwd_hooks=hooks),
                               other.run_with_hooks(ids, fwd_hooks=hooks).detach().numpy(), atol=1e-4)
