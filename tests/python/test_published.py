"""Published models give the bits of the command: `HEED_PUBLISHED` is a folder with `minilm`, `smollm2.gguf`, `whisper` and `speech.wav`, or
links to them (scripts/zoo.py puts such models together). What is not there is skipped."""
import json
import os
from pathlib import Path

import numpy as np
import pytest

import heed
from conftest import of_command

TEXTS = ["The cat sat on the mat.", "Il fait beau.", "A longer text, of more than one clause; and then some."]


def published(name):
    path = Path(os.environ.get("HEED_PUBLISHED", "")) / name
    if "HEED_PUBLISHED" not in os.environ or not path.exists():
        pytest.skip(f"no {name} in HEED_PUBLISHED")
    return str(path)


def test_vectors_of_an_encoder(tmp_path):
    name, output = published("minilm"), tmp_path / "vectors.npy"
    of_command("embed", "--model", name, "--output", str(output), *TEXTS)
    np.testing.assert_array_equal(heed.load(name).encode(TEXTS), np.load(output))


@pytest.mark.parametrize("int8", [False, True])
def test_continuations_of_a_decoder(int8):
    name = published("smollm2.gguf")
    expected = of_command("generate", "--model", name, "--activations", "int8" if int8 else "f32", "--prompt", TEXTS[0], "--max-new-tokens", "24",
                          "--json")
    assert json.loads(expected)["text"] == heed.load(name, int8=int8).generate(TEXTS[0], max_new_tokens=24)


def test_transcripts_with_times_of_words():
    name, recording = published("whisper"), published("speech.wav")
    segments, info = heed.Whisper(name).transcribe(recording, word_timestamps=True)
    segments = list(segments)
    assert info.duration > 1
    words = [word.word for segment in segments for word in segment.words]
    assert "".join(words).strip() == "".join(segment.text for segment in segments).strip()
    assert of_command("transcribe", "--model", name, recording).split() == " ".join(segment.text for segment in segments).split()
