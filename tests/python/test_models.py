"""What models do: results equal those of the command, and errors are Python's."""
import json
import re

import numpy as np
import pytest

import heed
from conftest import of_command

TEXTS = ["A great film.", "A wonderful movie.", "Do not watch it."]


def test_repr_says_what_it_is(decoder):
    assert repr(decoder) == ("<heed.Decoder 'shakespeare': a gpt2 decoder, 1.8M parameters, can continue text, embed texts, "
                             "show attention>")


def test_vectors_are_those_of_the_command(masked):
    vectors = masked.encode(TEXTS)
    assert vectors.dtype == np.float32 and vectors.shape == (3, 256)
    lines = of_command("embed", "--model", "reviews-mlm", *TEXTS, "--json").splitlines()
    for vector, line in zip(vectors, lines):
        found = json.loads(line)
        expected = found["vector"] if isinstance(found, dict) and "vector" in found else found
        np.testing.assert_array_equal(vector, np.array(expected, np.float32))


def test_one_text_is_one_vector(masked):
    assert masked.encode(TEXTS[0]).shape == (256,)
    np.testing.assert_array_equal(masked.encode(TEXTS[0]), masked.encode(TEXTS)[0])


def test_truncated_vectors_have_unit_length(masked):
    vectors = masked.encode(TEXTS, truncate_dim=32, normalize_embeddings=True)
    assert vectors.shape == (3, 32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    whole = masked.encode(TEXTS)[:, :32]
    np.testing.assert_allclose(vectors, whole / np.linalg.norm(whole, axis=1, keepdims=True), rtol=1e-6)


def test_cut_texts_are_one_warning(masked):
    with pytest.warns(UserWarning, match="text 0 and 2 more: more than the 512 tokens") as told:
        masked.encode(["word " * 600, "word " * 700, "short", "word " * 800])
    assert len(told) == 1


def test_similarity_is_the_cosine(masked):
    vectors = masked.encode(TEXTS)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(masked.similarity(vectors, vectors), units @ units.T, atol=1e-6)


def test_a_batch_changes_no_bit(masked):
    many = [f"{text} {'very ' * n}" for n in range(20) for text in TEXTS]
    together = masked.encode(many, batch_tokens=300)
    for index in (0, 17, 59):
        np.testing.assert_array_equal(together[index], masked.encode(many[index]))
    np.testing.assert_array_equal(together[:9], masked.encode(many[:9], batch_size=2))
    with pytest.raises(ValueError, match="batch_size: expected at least 1, got 0"):
        masked.encode(many, batch_size=0)


def test_generation_is_that_of_the_command(decoder):
    expected = of_command("generate", "--model", "shakespeare", "--prompt", "ROMEO:", "--max-new-tokens", "30")
    text = decoder.generate("ROMEO:", max_new_tokens=30)
    assert "ROMEO:" + text == expected.rstrip("\n") or text == expected.rstrip("\n") or text in expected


def test_a_stream_joins_to_the_text(decoder):
    assert "".join(decoder.generate("ROMEO:", max_new_tokens=40, stream=True)) == decoder.generate("ROMEO:", max_new_tokens=40)


def test_a_stream_that_is_left_ends(decoder):
    for part in decoder.generate("ROMEO:", max_new_tokens=5000, stream=True):
        break
    assert decoder.generate("ROMEO:", max_new_tokens=4)


def test_samples_follow_the_seed(decoder):
    first = decoder.generate("ROMEO:", max_new_tokens=20, do_sample=True, seed=3)
    assert first == decoder.generate("ROMEO:", max_new_tokens=20, do_sample=True, seed=3)
    assert first != decoder.generate("ROMEO:", max_new_tokens=20, do_sample=True, seed=4)


def test_a_regex_is_kept(decoder):
    assert re.fullmatch(r"[0-9]{3}", decoder.generate("ROMEO:", regex="[0-9]{3}", max_new_tokens=10))


def test_likelihoods_are_those_of_the_logits(decoder):
    (total, greedy), = decoder.loglikelihood([("ROMEO:\n", "But soft")])
    tokenizer = decoder.tokenizer
    context, whole = tokenizer.encode("ROMEO:").ids, tokenizer.encode("ROMEO:\nBut soft").ids
    logits = decoder.forward({"input_ids": np.array([whole])})["logits"][0].astype(np.float64)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = sum(log_p[t - 1, whole[t]] for t in range(len(context), len(whole)))
    assert total == pytest.approx(expected, abs=1e-4)
    assert greedy == all(logits[t - 1].argmax() == whole[t] for t in range(len(context), len(whole)))


def test_chat_follows_the_template(chat_model):
    model = heed.load(chat_model)
    messages = [{"role": "user", "content": "Hi"}]
    assert model.chat(messages, max_new_tokens=8) == model.generate("user: Hi\nassistant: ", max_new_tokens=8)
    assert "".join(model.chat("Hi", max_new_tokens=8, stream=True)) == model.chat(messages, max_new_tokens=8)
    assert re.fullmatch("[A-Z][a-z]{3}!", model.chat("Hi", regex="[A-Z][a-z]{3}!", max_new_tokens=10))


def test_translation_with_alignments(translator):
    assert translator.translate("The black cat drinks milk.") == "Le chat noir boit du lait."
    found = translator.translate(["The black cat drinks milk."], return_alignments=True)[0]
    weights = found.attentions["decoder.layers.1.cross_attn.weights"]
    assert weights.shape[1:] == (len(found.tokens), len(found.source_tokens))
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


def test_labels_and_masks(classifier, masked):
    labels = classifier.classify("A moving story, told with great care.")
    assert [name for name, _ in labels] == ["positive", "negative"]
    assert sum(score for _, score in labels) == pytest.approx(1)
    best = masked.fill("This film was a complete [MASK] of time.")[0]
    assert best["token_str"] == "waste" and best["score"] == pytest.approx(0.9944, abs=1e-4)


def test_tokenizer(decoder, translator):
    found = translator.tokenizer.encode("I like tea.")
    assert found.tokens[-1] == "</s>" and found.offsets[0] == (0, 1)
    assert translator.tokenizer.decode(found.ids) is not None
    assert decoder.tokenizer.decode(decoder.tokenizer.encode("But soft").ids) == "But soft"
