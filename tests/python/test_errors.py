"""Every public function refuses wrong arguments by their names, and wrong values in the library's words."""
import numpy as np
import pytest

import heed
from conftest import FIXTURES

WRONG_TYPES = [
    (lambda m: heed.load(3), "name: expected str or Path, got int"),
    (lambda m: heed.load("shakespeare", dtype=3), "dtype: expected str, got int"),
    (lambda m: heed.load("shakespeare", threads="two"), "threads: expected int or None, got str"),
    (lambda m: heed.load("shakespeare", int8="yes"), "int8: expected bool or None, got str"),
    (lambda m: heed.load("shakespeare", 3), "too many positional arguments"),
    (lambda m: heed.load("shakespeare", dtypes="float32"), "dtypes"),
    (lambda m: heed.set_threads("two"), "count|incompatible"),
    (lambda m: m["lm"].encode(3), "texts: expected str or list of str, got int"),
    (lambda m: m["lm"].encode(["a", None]), r"texts\[1\]: expected str, got NoneType"),
    (lambda m: m["lm"].encode("a", truncate_dim="8"), "truncate_dim: expected int or None, got str"),
    (lambda m: m["lm"].encode("a", batch_tokens=1.5), "batch_tokens: expected int, got float"),
    (lambda m: m["vit"].encode_images(3), "files: expected str"),
    (lambda m: m["lm"].token_embeddings(3), "texts: expected str"),
    (lambda m: m["lm"].similarity("a", [[1.0]]), "a: expected an array"),
    (lambda m: m["lm"].inputs(3), "text: expected str, got int"),
    (lambda m: m["lm"].forward(3), "inputs: expected a str or arrays by name, got int"),
    (lambda m: m["lm"].forward({"input_ids": "abc"}), "input_ids: expected an array"),
    (lambda m: m["lm"].forward({"input_ids": np.zeros((1, 2), ">i8")}), "input_ids: expected an array of numbers in this machine's byte order"),
    (lambda m: m["lm"].forward({"input_ids": np.zeros((1, 2), np.complex64)}), "input_ids: expected an array of float64"),
    (lambda m: m["lm"].run_with_cache(3), "inputs: expected a str or arrays by name, got int"),
    (lambda m: m["lm"].run_with_cache("a", names=3), "names: expected str or list of str or None, got int"),
    (lambda m: m["lm"].run_with_cache("a", heads=1), "heads: expected list of int, got int"),
    (lambda m: m["lm"].run_with_hooks("a", fwd_hooks=[("blocks.0.hook_resid_post", 3)]), "fwd_hooks: blocks.0.hook_resid_post: expected a function, got int"),
    (lambda m: m["lm"].run_with_hooks("a", fwd_hooks=[3]), r"fwd_hooks\[0\]: expected \(name, function\), got 3"),
    (lambda m: m["lm"].steered(3), "steering: expected what heed.steer"),
    (lambda m: m["lm"].steered("a.safetensors", "2"), "strength: expected float, got str"),
    (lambda m: m["lm"].generate(3), "prompts: expected str"),
    (lambda m: m["lm"].generate("a", max_tokens=3), "max_tokens: no setting of generation"),
    (lambda m: m["lm"].generate("a", temperature="hot"), "temperature: expected another type than str"),
    (lambda m: m["lm"].generate("a", regex=3), "regex: expected str or None, got int"),
    (lambda m: m["lm"].generate("a", stop_strings=3), "stop_strings: expected list of str, got int"),
    (lambda m: m["lm"].chat(3), "messages: expected str or list of Message, got int"),
    (lambda m: m["lm"].loglikelihood([3]), r"requests\[0\]: expected \(context, continuation\), got 3"),
    (lambda m: m["lm"].generation_options(num_beams="two"), "num_beams: expected another type than str"),
    (lambda m: m["classifier"].classify(3), "texts: expected str, a pair or a list of them, got int"),
    (lambda m: m["classifier"].classify(["a", 3]), r"texts\[1\]: expected str or a pair of them, got 3"),
    (lambda m: m["classifier"].classify("a", top_k="1"), "top_k: expected int or None, got str"),
    (lambda m: m["vit"].classify_files(3), "files: expected str"),
    (lambda m: m["mlm"].fill(3), "texts: expected str"),
    (lambda m: m["classifier"].tag(3), "texts: expected str"),
    (lambda m: m["classifier"].answer(3, "a"), "question: expected str, got int"),
    (lambda m: heed.CrossEncoder("reviews").predict([("a",)]), r"pairs\[0\]: expected \(query, document\)"),
    (lambda m: heed.CrossEncoder("reviews").rank(3, ["a"]), "query: expected str, got int"),
    (lambda m: m["translator"].translate(3), "texts: expected str"),
    (lambda m: m["translator"].translate("a", source=3), "source: expected str or None, got int"),
    (lambda m: m["translator"].caption(3), "files: expected str"),
    (lambda m: heed.Whisper(3), "name: expected str or Path, got int"),
    (lambda m: heed.Whisper(FIXTURES / "moonshine-speech").transcribe(3), "audio: expected str or Path, got int"),
    (lambda m: heed.lens(m["lm"], 3), "text: expected str, got int"),
    (lambda m: heed.lens("shakespeare", "a"), "model: expected Model, got str"),
    (lambda m: heed.attribute(m["lm"], 3), "texts: expected str"),
    (lambda m: heed.saliency(m["lm"], "a", method=3), "method: expected str, got int"),
    (lambda m: heed.heads(m["lm"]), "heads: expected texts, or repeated=NUMBER"),
    (lambda m: heed.heads(m["lm"], repeated="a"), "repeated: expected int or None, got str"),
    (lambda m: heed.ablate(m["lm"], "a", remove=3), "remove: expected str, got int"),
    (lambda m: heed.patch(m["lm"], "a", 3), "corrupted: expected str, got int"),
    (lambda m: heed.circuits(m["lm"], 3), "head: expected str or None, got int"),
    (lambda m: heed.steer(m["lm"], 3, "a"), "positive: expected str or list of str, got int"),
    (lambda m: heed.attend(m["lm"], 3), "text: expected str, got int"),
    (lambda m: heed.attend(m["lm"], "a", layers=1), "layers: expected list of int or None, got int"),
    (lambda m: heed.doctor(3), "model: expected Model or str, got int"),
    (lambda m: heed.line_chart("a", "b", "c", {"d": 3}), r"series\[0\]: expected \(xs, ys\), got 3"),
    (lambda m: heed.train(3, "out"), "recipe: expected str or Path, got int"),
    (lambda m: heed.convert(3, "out"), "model: expected str or Path, got int"),
]

WRONG_VALUES = [
    (lambda m: heed.load("no-such-model"), heed.Error, "no-such-model"),
    (lambda m: heed.load("shakespeare", dtype="int7"), ValueError, "dtype: expected float32 or bfloat16, got int7"),
    (lambda m: heed.load("shakespeare", adapters="no-such-adapter"), heed.Error, "no-such-adapter"),
    (lambda m: heed.load("shakespeare", steer="none.safetensors"), heed.Error, "none.safetensors"),
    (lambda m: heed.set_threads(0), ValueError, "set_threads: expected at least 1"),
    (lambda m: m["lm"].encode("a", prompt_name="query"), heed.Error, "prompt_name"),
    (lambda m: m["lm"].encode("a", truncate_dim=9999), ValueError, "truncate_dim: expected 1 to 192, got 9999"),
    (lambda m: m["lm"].encode_images("none.png"), heed.Error, "image"),
    (lambda m: m["vit"].encode_images("none.png"), heed.Error, "none.png"),
    (lambda m: m["lm"].similarity(np.zeros((1, 2)), np.zeros((1, 3))), heed.Error, "2"),
    (lambda m: m["lm"].forward({"input_ids": [[1, 999]]}), heed.Error, "999"),
    (lambda m: m["lm"].forward({"ids": [[1]]}), heed.Error, "ids"),
    (lambda m: m["lm"].forward({"input_ids": np.zeros((1, 2), np.float32)}), heed.Error, "input_ids"),
    (lambda m: m["lm"].run_with_cache("a", names="blocks.9.hook_resid_post"), heed.Error, "blocks.9"),
    (lambda m: m["lm"].run_with_hooks("a", fwd_hooks=[("blocks.0.hook_resid_post", lambda value, hook: value[:, :, :3])]), ValueError, r"expected an array \[1, 1, 192\]"),
    (lambda m: m["lm"].generate("a", temperature=-1.0, do_sample=True), heed.Error, "temperature"),
    (lambda m: m["lm"].generate("a", regex="("), heed.Error, "regex"),
    (lambda m: m["lm"].generate(["a", "b"], stream=True), ValueError, "stream: expected one prompt"),
    (lambda m: m["lm"].chat("Hi"), heed.Error, "chat template"),
    (lambda m: m["mlm"].classify("a"), heed.Error, "cannot classify texts"),
    (lambda m: m["classifier"].fill("a"), heed.Error, "fill"),
    (lambda m: m["mlm"].fill("no mask"), heed.Error, r"no \[MASK\] in the text"),
    (lambda m: m["classifier"].tag("a"), heed.Error, "tag"),
    (lambda m: m["classifier"].answer("a", "b"), heed.Error, "answer"),
    (lambda m: heed.CrossEncoder("reviews").rank("a", ["b"]), ValueError, "rank: expected a model of one score, got 2 labels"),
    (lambda m: m["translator"].translate("a", source="xx"), heed.Error, "language"),
    (lambda m: m["translator"].caption("none.png"), heed.Error, "caption"),
    (lambda m: heed.Whisper(FIXTURES / "moonshine-speech").transcribe("none.wav"), heed.Error, "none.wav"),
    (lambda m: heed.Whisper(FIXTURES / "moonshine-speech").transcribe("none.wav", task="sing"), ValueError, "task: expected transcribe or translate, got sing"),
    (lambda m: heed.lens(m["classifier"], "a"), heed.Error, "lens"),
    (lambda m: heed.lens(m["lm"], "a", target="b"), heed.Error, "target"),
    (lambda m: heed.attribute(m["lm"], "a", token="two tokens"), heed.Error, "token"),
    (lambda m: heed.attribute(m["lm"], "a", metric="size"), heed.Error, "metric: expected one of loss"),
    (lambda m: heed.saliency(m["lm"], "a", method="guess"), heed.Error, "method: expected gradient, integrated or occlusion, got guess"),
    (lambda m: heed.heads(m["lm"], "a", kind="cross"), heed.Error, "cross"),
    (lambda m: heed.ablate(m["lm"], "ab", remove="9.9"), heed.Error, "9"),
    (lambda m: heed.ablate(m["lm"], "a", replacement="one"), heed.Error, "replacement: expected zero, mean or resample, got one"),
    (lambda m: heed.patch(m["lm"], "abc", "ab", token="a"), heed.Error, "tokens"),
    (lambda m: heed.patch(m["lm"], "abc", "abd", token="a", method="guess"), heed.Error, "method: expected passes, gradient or both, got guess"),
    (lambda m: heed.circuits(m["lm"], "9.9"), heed.Error, "9"),
    (lambda m: heed.steer(m["lm"], [], ["a"]), heed.Error, "positive|texts"),
    (lambda m: heed.steer(m["lm"], ["a"], ["a"]), heed.Error, "differ"),
    (lambda m: heed.steer(m["lm"], ["a"], ["b"], method="guess"), heed.Error, "method: expected mean or pca, got guess"),
    (lambda m: heed.attend(m["lm"], "a", layers=[9]), heed.Error, "9"),
    (lambda m: heed.attend(m["lm"], "a", heads=[9]), heed.Error, "9"),
    (lambda m: heed.train("none.toml", "out"), heed.Error, "none.toml"),
    (lambda m: heed.train("recipes/text.toml", "out", train__stepz=2), heed.Error, "train.stepz"),
]


@pytest.fixture(scope="module")
def models(decoder, classifier, masked, translator):
    return {"lm": decoder, "classifier": classifier, "mlm": masked, "translator": translator, "vit": heed.load("cifar10")}


@pytest.mark.parametrize("call, words", WRONG_TYPES, ids=[words for _, words in WRONG_TYPES])
def test_a_wrong_type_is_named(models, call, words):
    with pytest.raises(TypeError, match=words):
        call(models)


@pytest.mark.parametrize("call, kind, words", WRONG_VALUES, ids=[words for *_, words in WRONG_VALUES])
def test_a_wrong_value_is_named(models, call, kind, words, monkeypatch):
    monkeypatch.chdir(FIXTURES.parents[1])
    with pytest.raises(kind, match=words):
        call(models)
