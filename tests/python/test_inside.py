"""Values inside: names, order of axes, replacement, exceptions of hooks."""
import sys

import numpy as np
import pytest

import heed
from conftest import FIXTURES, of_command

TEXT = "ROMEO:\nBut soft"


def test_patterns_are_softmax_of_scores(decoder):
    logits, cache = decoder.run_with_cache(TEXT)
    scores = cache["attn_scores", 1].astype(np.float64)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(cache["pattern", 1], weights / weights.sum(-1, keepdims=True), atol=1e-6)
    assert np.triu(cache["pattern", 1][0, 0], 1).max() == 0  # no future
    assert cache["q", 0].shape == (1, 15, 6, 32) and cache["resid_pre", 3].shape == (1, 15, 192)


def test_heads_read_weights_times_values(decoder):
    _, cache = decoder.run_with_cache(TEXT)
    mixed = np.einsum("bhts,bshd->bthd", cache["pattern", 2], cache["v", 2])
    np.testing.assert_allclose(cache["z", 2], mixed, atol=1e-5)


def test_the_stream_is_a_sum(decoder):
    _, cache = decoder.run_with_cache(TEXT)
    np.testing.assert_allclose(cache["resid_pre", 0], cache["hook_embed"] + cache["hook_pos_embed"], atol=1e-6)
    np.testing.assert_allclose(cache["resid_post", 1], cache["resid_mid", 1] + cache["mlp_out", 1], atol=1e-5)


def test_reading_changes_nothing(decoder):
    plain = decoder.forward(TEXT)["logits"]
    logits, cache = decoder.run_with_cache(TEXT, names=["blocks.*.attn.hook_pattern", "decoder.layers.0.out"])
    np.testing.assert_array_equal(plain, logits)
    assert set(cache) == {f"blocks.{n}.attn.hook_pattern" for n in range(4)} | {"decoder.layers.0.out"}
    assert cache.stack_activation("pattern").shape == (4, 1, 6, 15, 15)


def test_hooks_replace_by_result_and_in_place(decoder):
    plain = decoder.forward(TEXT)["logits"]

    def in_place(z, hook):
        z[:, :, 2] = 0

    def returned(z, hook):
        assert hook.name == "blocks.1.attn.hook_z"
        z = z.copy()
        z[:, :, 2] = 0
        return z

    first = decoder.run_with_hooks(TEXT, fwd_hooks=[("blocks.1.attn.hook_z", in_place)])
    second = decoder.run_with_hooks(TEXT, fwd_hooks=[("blocks.1.attn.hook_z", returned)])
    np.testing.assert_array_equal(first, second)
    assert np.abs(first - plain).max() > 1e-3
    same = decoder.run_with_hooks(TEXT, fwd_hooks=[("blocks.1.attn.hook_z", lambda z, hook: None)])
    np.testing.assert_array_equal(same, plain)


def test_ablation_by_a_hook_is_that_of_ablate(classifier):
    text = "A moving story, told with great care."

    def without(z, hook):
        z[:, :, 1] = 0

    logits = classifier.run_with_hooks(text, fwd_hooks=[("blocks.2.attn.hook_z", without)])[0]
    loss = -np.log(np.exp(logits[1]) / np.exp(logits).sum())
    report = heed.ablate(classifier, text, metric="loss")
    assert report.table["2.1", "loss"] == pytest.approx(loss, abs=1e-5)


def test_an_exception_of_a_hook_comes_out(decoder):
    class Mine(Exception):
        pass

    def raises(value, hook):
        raise Mine("of the hook")

    with pytest.raises(Mine, match="of the hook") as raised:
        decoder.run_with_hooks(TEXT, fwd_hooks=[("blocks.0.hook_resid_post", raises)])
    assert raised.traceback[-1].name == "raises"
    assert decoder.forward(TEXT)["logits"].shape[1] == 15


@pytest.mark.parametrize("name, function, kind, words", [
    ("blocks.0.attn.hook_z", lambda z, hook: z[:, :1], ValueError, "expected an array"),
    ("blocks.9.attn.hook_z", lambda z, hook: z, heed.Error, "blocks.9.attn.hook_z"),
    ("blocks.0.attn.hook_rot_q", lambda z, hook: z, ValueError, "no rotary positions"),
    ("hook_embed", lambda z, hook: z, ValueError, "decoder.embed"),
])
def test_bad_hooks_are_named(decoder, name, function, kind, words):
    with pytest.raises(kind, match=words):
        decoder.run_with_hooks(TEXT, fwd_hooks=[(name, function)])


def test_reports_are_arrays_with_names(decoder):
    report = heed.heads(decoder, repeated=20)
    table = report.table
    assert table.columns[:3] == ["previous", "duplicate", "induction"] and len(table.rows) == 24
    assert table.values.shape == (24, len(table.columns))
    assert table["0.0", "previous"] == pytest.approx(0.97, abs=0.01)
    assert "<svg" in report._repr_html_() and "Attention heads" in str(report)


def test_arrays_have_named_axes(decoder, translator):
    found = heed.patch(decoder, "ROMEO:", "JULIE:", token="\n", show_progress_bar=False)
    effects = found.array
    assert effects.dims == ("layer", "position") and effects.coords == {"layer": [0, 1, 2, 3], "position": list("JULIE:")}
    np.testing.assert_array_equal(effects.values, found["effects"])
    assert effects.sel(layer=2, position="I").values == found["effects"][2][3] == effects.sel(layer=2, position=3)[()]
    with pytest.raises(KeyError, match="'Q'"):
        effects.sel(position="Q")
    parts = heed.attribute(decoder, ["ROMEO:", "JULIET:"], token="\n").arrays
    assert parts["self_attn"].shape == parts["self_attn_error"].shape == (4, 6) and parts["embed"].shape == ()
    lens = heed.lens(translator, "The cat", target="Le chat", top_k=3).arrays
    assert lens["probability"].dims == ("layer", "position", "rank") and lens["token"].dtype == object
    ablated = heed.ablate(decoder, "ROMEO:", metric="loss", feed_forward=True, show_progress_bar=False).arrays
    assert ablated["change"].shape == (1, 4, 6) and ablated["feed_forward_change"].shape == (1, 4)
    assert list(heed.saliency(translator, "The cat", target="Le chat", show_progress_bar=False).arrays) == ["encoder_adds", "decoder_adds"]


@pytest.mark.parametrize("name, kind", [("copying", "DataFrame"), ("ov", "Series")])
def test_arrays_go_to_pandas(decoder, name, kind):
    pytest.importorskip("pandas")
    array = heed.circuits(decoder, show_progress_bar=False).arrays[name]
    frame = array.to_pandas()
    assert type(frame).__name__ == kind and frame.size == array.values.size
    assert (frame.index.names + (list(frame.columns.names) if kind == "DataFrame" else [])) == list(array.dims)


JOY, WOE = ["O joy!", "What love!", "Sweet day!"], ["O woe!", "What pain!", "Dark day!"]


def test_vectors_steer_as_those_of_the_command(decoder, tmp_path):
    steering = heed.steer(decoder, JOY, WOE, show_progress_bar=False)
    vectors = steering.arrays["vectors"]
    assert vectors.dims == ("layer", "dimension") and vectors.shape == (4, 192) and vectors.dtype == np.float32
    _, joy = decoder.run_with_cache(JOY[0], names=["blocks.1.hook_resid_post"])
    means = [np.mean([decoder.run_with_cache(text, names=["blocks.1.hook_resid_post"])[1]["resid_post", 1][0, -1] for text in texts], 0)
             for texts in (JOY, WOE)]
    np.testing.assert_allclose(vectors.sel(layer=1), means[0] - means[1], atol=1e-4)

    plain = decoder.run_with_cache("ROMEO:", names=["blocks.1.hook_resid_post", "blocks.0.hook_resid_post"])[1]
    steered = decoder.steered(steering, 2.0, layers=(1, 2))
    added = steered.run_with_cache("ROMEO:", names=["blocks.1.hook_resid_post", "blocks.0.hook_resid_post"])[1]
    np.testing.assert_array_equal(added["resid_post", 0], plain["resid_post", 0])
    np.testing.assert_allclose(added["resid_post", 1] - plain["resid_post", 1], np.broadcast_to(2 * vectors.sel(layer=1).values, (1, 6, 192)), atol=1e-4)

    (tmp_path / "joy.txt").write_text("\n".join(JOY))
    (tmp_path / "woe.txt").write_text("\n".join(WOE))
    steering.save(tmp_path / "own.safetensors")
    of_command("steer", "--model", "shakespeare", "--positive", str(tmp_path / "joy.txt"), "--negative", str(tmp_path / "woe.txt"),
               "--output", str(tmp_path / "other.safetensors"), "--quiet")
    assert (tmp_path / "own.safetensors").read_bytes() == (tmp_path / "other.safetensors").read_bytes()
    text = heed.load("shakespeare", steer={tmp_path / "own.safetensors": 2.0}, steer_layers=(1, 2)).generate("ROMEO:", max_new_tokens=30)
    assert text == steered.generate("ROMEO:", max_new_tokens=30) != decoder.generate("ROMEO:", max_new_tokens=30)


def test_hooks_hold_while_a_text_is_written(decoder, tmp_path):
    vector = heed.steer(decoder, JOY, WOE, show_progress_bar=False).arrays["vectors"].sel(layer=1).values
    steps = []

    def add(stream, hook):
        steps.append(stream.shape[1])
        stream += 2 * vector

    text = decoder.generate("ROMEO:", max_new_tokens=20, fwd_hooks=[("blocks.1.hook_resid_post", add)])
    assert text == decoder.steered(heed.steer(decoder, JOY, WOE, show_progress_bar=False), 2.0, layers=(1, 2)).generate("ROMEO:", max_new_tokens=20)
    assert steps == [6] + [1] * 19


def test_values_of_every_kind_of_model(translator):
    _, cache = translator.run_with_cache("The black cat", target="Le chat", names=["encoder.layers.*.out", "decoder.layers.1.cross_attn.weights"])
    assert cache["encoder.layers.0.out"].shape == (1, 4, 256) and cache["decoder.layers.1.cross_attn.weights"].shape == (1, 8, 3, 4)
    _, cache = heed.load("cifar10").run_with_cache(str(FIXTURES / "image" / "pictures" / "wide.png"), names="blocks.*.attn.hook_pattern")
    assert cache["pattern", 0].shape[1] == 4 and np.allclose(cache["pattern", 0].sum(-1), 1, atol=1e-5)
    speech = heed.Whisper(FIXTURES / "moonshine-speech")
    _, cache = speech.run_with_cache(str(FIXTURES / "sound" / "speech.wav"), names="decoder.layers.0.cross_attn.weights")
    assert np.allclose(cache["decoder.layers.0.cross_attn.weights"].sum(-1), 1, atol=1e-5)


def test_one_head_is_read_alone(decoder):
    _, whole = decoder.run_with_cache(TEXT, names=["blocks.*.attn.hook_pattern", "blocks.2.attn.hook_z"])
    _, one = decoder.run_with_cache(TEXT, names=["blocks.*.attn.hook_pattern", "blocks.2.attn.hook_z"], heads=[5, 2])
    np.testing.assert_array_equal(one["pattern", 1], whole["pattern", 1][:, [2, 5]])
    np.testing.assert_array_equal(one["z", 2], whole["z", 2][:, :, [2, 5]])
    with pytest.raises(heed.Error, match="head"):
        decoder.run_with_cache(TEXT, names=["blocks.0.attn.hook_pattern"], heads=[6])


def test_a_report_is_saved(decoder, tmp_path):
    report = heed.lens(decoder, "ROMEO:")
    for ending in ("svg", "json", "csv"):
        report.save(tmp_path / f"lens.{ending}")
        assert (tmp_path / f"lens.{ending}").stat().st_size > 100


def test_the_page_of_attention(translator, tmp_path):
    picture = translator.attend("The black cat drinks milk.", kind="cross", layers=[1], heads=[0])
    assert picture.html().startswith("<!") and "<iframe" in picture._repr_html_()
    picture.save(tmp_path / "a.html")
    assert repr(picture) == "<heed.Attention: 'The black cat drinks milk.'>"
    with pytest.raises(ValueError, match="expected a name that ends"):
        picture.save(tmp_path / "a.doc")


def test_the_page_is_a_widget_where_anywidget_is(translator, monkeypatch):
    pytest.importorskip("anywidget")
    picture = translator.attend("The black cat drinks milk.", kind="cross")
    widget = picture.show(height=500)
    assert widget.page == picture.html() and widget.height == 500 and (widget.layer, widget.head) == (-1, "")
    widget.layer, widget.head = 1, "mean"
    assert widget.get_state()["layer"] == 1 and widget.get_state()["head"] == "mean"
    monkeypatch.setitem(sys.modules, "heed.integrations.widget", None)
    assert picture.show(height=500).data.startswith("<div><iframe srcdoc=")


def test_doctor(decoder):
    found = heed.doctor("shakespeare")
    assert {check["status"] for check in found} <= {"ok", "warning", "skipped"}
    assert any(check["name"] == "causality" or "future" in check["measurement"] for check in found)


@pytest.mark.parametrize("name", ["bloom", "gemma2", "gpt-neox", "gpt2", "llama", "mixtral", "mpt", "phi3", "qwen2"])
def test_maps_of_layers_are_those_that_compute(name):
    """Fused by kind and by head, transposed, with keys that heads share, gates beside what they gate."""
    opened = heed.load(FIXTURES / "decoders" / name)._opened

    def applied(x, layer_map):
        weight, bias = layer_map
        return x @ weight.T + (0 if bias is None else bias)

    parts = ["self_attn.norm", "self_attn.v", "self_attn.heads", "self_attn.out", "feed_forward.norm", "feed_forward.inner", "feed_forward.out"]
    taps = {part: f"decoder.layers.1.{part}" for part in parts}
    _, kept = opened.forward({"input_ids": [[1, 2, 3, 4]]}, list(taps.values()), [], [], False, False)
    value = {part: kept[tap] for part, tap in taps.items() if tap in kept}
    weight, bias = opened.layer_map(1, "v")
    values = np.einsum("btD,hdD->bhtd", value["self_attn.norm"], weight) + (0 if bias is None else bias[:, None])
    np.testing.assert_allclose(values, value["self_attn.v"], atol=1e-5)
    heads = np.swapaxes(value["self_attn.heads"], 1, 2).reshape(1, 4, -1)
    np.testing.assert_allclose(applied(heads, opened.layer_map(1, "out")), value["self_attn.out"], atol=1e-5)
    if name == "mixtral":
        assert opened.layer_map(1, "down") is None
        return
    np.testing.assert_allclose(applied(value["feed_forward.inner"], opened.layer_map(1, "down")), value["feed_forward.out"], atol=1e-5)
    if (gate := opened.layer_map(1, "gate")) is not None and name != "gemma2":  # whose gate is no SiLU
        gates = applied(value["feed_forward.norm"], gate)
        np.testing.assert_allclose(gates / (1 + np.exp(-gates)) * applied(value["feed_forward.norm"], opened.layer_map(1, "up")),
                                   value["feed_forward.inner"], atol=1e-5)
    assert opened.layer_map(1, "none") is None
    with pytest.raises(IndexError):
        opened.layer_map(9, "v")
