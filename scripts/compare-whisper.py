#!/usr/bin/env python3
"""Compares the transcripts of heed with those of OpenAI's whisper and of transformers, at temperature 0.

    scripts/compare-whisper.py --heed build/release/heed MODEL SOUND...

MODEL is a directory of a Whisper in the layout of Hugging Face, which all three read. Needs torch, transformers, soundfile,
librosa, soxr and openai-whisper. Prints for each recording: whether tokens and times are those of OpenAI's whisper with and without
the text so far, the largest difference of its statistics and of the times of words, and whether the tokens are those of
transformers' long-form generate, which has no thresholds, for recordings longer than a window.
"""
import argparse
import json
import subprocess

import soundfile
import torch
import whisper
from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration

NAMES = [("encoder.layers", "encoder.blocks"), ("decoder.layers", "decoder.blocks"), ("embed_positions.weight", "positional_embedding"),
         ("embed_tokens", "token_embedding"), ("encoder_attn_layer_norm", "cross_attn_ln"), ("self_attn_layer_norm", "attn_ln"),
         ("final_layer_norm", "mlp_ln"), ("encoder_attn", "cross_attn"), ("self_attn", "attn"), ("q_proj", "query"),
         ("k_proj", "key"), ("v_proj", "value"), ("out_proj", "out"), ("fc1", "mlp.0"), ("fc2", "mlp.2"),
         ("encoder.layer_norm", "encoder.ln_post"), ("decoder.layer_norm", "decoder.ln")]


def reference_of(model):
    c = model.config
    made = whisper.model.Whisper(whisper.model.ModelDimensions(
        c.num_mel_bins, c.max_source_positions, c.d_model, c.encoder_attention_heads, c.encoder_layers, c.vocab_size,
        c.max_target_positions, c.d_model, c.decoder_attention_heads, c.decoder_layers))
    weights = {}
    for name, value in model.state_dict().items():
        if name != "proj_out.weight":
            name = name.removeprefix("model.")
            for old, new in NAMES:
                name = name.replace(old, new)
            weights[name] = value
    missing = made.load_state_dict(weights, strict=False)
    assert not missing.missing_keys and not missing.unexpected_keys, missing
    heads = torch.zeros(c.decoder_layers, c.decoder_attention_heads, dtype=torch.bool)
    for layer, head in model.generation_config.alignment_heads:
        heads[layer, head] = True
    made.register_buffer("alignment_heads", heads.to_sparse(), persistent=False)
    return made.float().eval()


def samples_of(file):
    samples, rate = soundfile.read(file, dtype="float32", always_2d=True)
    samples = samples.mean(1)
    if rate != 16000:
        import librosa
        samples = librosa.resample(samples, orig_sr=rate, target_sr=16000, res_type="soxr_hq")
    return samples


def transcript(command, *options):
    return json.loads(subprocess.run([*command, *options], check=True, capture_output=True, text=True).stdout)


def tokens_of(segments):
    return [token for segment in segments for token in segment["tokens"]]


def compared(ours, theirs):
    kept = [s for s in theirs["segments"] if s["tokens"]]
    if tokens_of(ours["segments"]) != tokens_of(kept):
        return "tokens DIFFER"
    times = max([abs(a[k] - b[k]) for a, b in zip(ours["segments"], kept) for k in ("start", "end")], default=0)
    statistics = max([abs(a[k] - b[k]) for a, b in zip(ours["segments"], kept)
                      for k in ("avg_logprob", "compression_ratio", "no_speech_prob")], default=0)
    return f"{len(tokens_of(kept))} tokens equal, times within {times:.2g} s, statistics within {statistics:.1e}"


def compared_words(ours, theirs):
    a = [w for s in ours["segments"] for w in s.get("words", [])]
    b = [w for s in theirs["segments"] for w in s["words"]]
    if [w["word"] for w in a] != [w["word"] for w in b]:
        return "words DIFFER"
    return f"{len(a)} words equal, times within {max([abs(x[k] - y[k]) for x, y in zip(a, b) for k in ('start', 'end')], default=0):.2g} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heed", default="build/release/heed")
    parser.add_argument("--language", help="of the recordings, for transformers, which detects none here (default: as heed detects)")
    parser.add_argument("model")
    parser.add_argument("sounds", nargs="+")
    a = parser.parse_args()
    model = WhisperForConditionalGeneration.from_pretrained(a.model, dtype=torch.float32).eval()
    reference, extractor = reference_of(model), WhisperFeatureExtractor.from_pretrained(a.model)
    multilingual = model.generation_config.is_multilingual
    for sound in a.sounds:
        samples = samples_of(sound)
        command = [a.heed, "transcribe", "--model", a.model, "--json", "--quiet", sound, "--temperature", "0"]
        given = {"temperature": 0.0, "fp16": False} | ({} if multilingual else {"language": "en"})
        print(sound)
        for name, condition in ("with the text so far", True), ("without", False):
            options = [] if condition else ["--no-condition-on-previous-text"]
            ours = transcript(command, *options)
            print(f"  OpenAI's, {name}:", compared(ours, reference.transcribe(samples, condition_on_previous_text=condition, **given)))
            if len(samples) <= 30 * 16000:
                continue
            inputs = extractor(samples, sampling_rate=16000, truncation=False, padding="longest", return_attention_mask=True,
                               return_tensors="pt")
            language = {"task": "transcribe", "language": a.language or ours["language"]} if multilingual else {}
            found = model.generate(inputs.input_features, attention_mask=inputs.attention_mask, return_timestamps=True,
                                   return_segments=True, condition_on_prev_tokens=condition, temperature=0.0, **language)
            theirs = [t for s in found["segments"][0] for t in s["tokens"].tolist() if t < model.config.eos_token_id]
            ours = transcript(command, *options, "--no-speech-threshold", "none", "--logprob-threshold", "none",
                              "--compression-ratio-threshold", "none")
            same = [t for t in tokens_of(ours["segments"]) if t < model.config.eos_token_id] == theirs
            print(f"  transformers', {name}:", f"{len(theirs)} tokens of text equal" if same else "tokens DIFFER")
        ours = transcript(command, "--word-timestamps")
        print("  words:", compared_words(ours, reference.transcribe(samples, word_timestamps=True, **given)))


if __name__ == "__main__":
    main()
