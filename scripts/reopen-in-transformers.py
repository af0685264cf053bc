#!/usr/bin/env python3
"""Tests models of every family with unusual sizes and settings: transformers makes them with random weights, `heed forward`
runs them, heed saves them (tests/models/save_again.cpp), and transformers loads the saved files.

    scripts/reopen-in-transformers.py HEED SAVE_AGAIN

prints a table in Markdown: the largest difference between the results of heed and transformers, divided by the largest
value, and whether the model saved by heed gives exactly the numbers of the original in transformers."""
import inspect
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ |= {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
import torch
import transformers
from safetensors.torch import load_file, save_file

LIMIT = 1e-4
BERT = dict(vocab_size=97, hidden_size=42, num_hidden_layers=2, num_attention_heads=3, intermediate_size=50,
            max_position_embeddings=26, type_vocab_size=3, layer_norm_eps=1e-6)
ROBERTA = BERT | dict(type_vocab_size=1, pad_token_id=1)
DISTILBERT = dict(vocab_size=97, dim=42, n_layers=2, n_heads=3, hidden_dim=50, max_position_embeddings=24,
                  activation="relu")
ALBERT = BERT | dict(embedding_size=17, num_hidden_layers=4, num_hidden_groups=2, inner_group_num=2)
MPNET = {key: value for key, value in ROBERTA.items() if key != "type_vocab_size"} | dict(max_position_embeddings=36)
MODERNBERT = dict(vocab_size=97, hidden_size=40, num_hidden_layers=4, num_attention_heads=5, intermediate_size=50,
                  max_position_embeddings=64, local_attention=7, pad_token_id=2, bos_token_id=0, eos_token_id=1,
                  cls_token_id=0, sep_token_id=1)
DEBERTA = dict(vocab_size=97, hidden_size=42, num_hidden_layers=2, num_attention_heads=3, intermediate_size=50,
               max_position_embeddings=26, type_vocab_size=0, relative_attention=True, position_buckets=6,
               norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type="p2c|c2p", position_biased_input=False)
GPT2 = dict(vocab_size=97, n_embd=45, n_layer=3, n_head=3, n_inner=50, n_positions=40)
LLAMA = dict(vocab_size=97, hidden_size=48, intermediate_size=70, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64)
SMOLLM3 = LLAMA | dict(num_hidden_layers=3, pad_token_id=0)
GEMMA = LLAMA | dict(num_hidden_layers=3, head_dim=20, pad_token_id=0)
QWEN3_MOE = LLAMA | dict(num_hidden_layers=3, head_dim=20, moe_intermediate_size=28, num_experts=5,
                         num_experts_per_tok=2)
MIXTRAL = LLAMA | dict(intermediate_size=72, num_local_experts=5)
PHI3 = LLAMA | dict(pad_token_id=0)
NEOX = dict(vocab_size=97, hidden_size=48, intermediate_size=70, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=64)
T5 = dict(vocab_size=97, d_model=40, d_kv=12, d_ff=56, num_layers=2, num_decoder_layers=3, num_heads=3,
          relative_attention_num_buckets=12, relative_attention_max_distance=20, pad_token_id=0, eos_token_id=1,
          decoder_start_token_id=0)
BART = dict(vocab_size=97, d_model=40, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=2, encoder_ffn_dim=56, decoder_ffn_dim=44, max_position_embeddings=40,
            pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=2)
MARIAN = BART | dict(pad_token_id=96, eos_token_id=0, decoder_start_token_id=96, forced_eos_token_id=0,
                     activation_function="swish")
PEGASUS = BART | dict(pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, forced_eos_token_id=1)
VIT = dict(hidden_size=40, num_hidden_layers=2, num_attention_heads=5, intermediate_size=56, image_size=24, patch_size=8,
           pooler_output_size=20)
DEIT = {key: value for key, value in VIT.items() if key != "pooler_output_size"}
DINOV2 = {key: value for key, value in DEIT.items() if key != "intermediate_size"} | dict(mlp_ratio=3)
DINOV3 = DEIT | dict(num_register_tokens=3, num_attention_heads=2)
TEXT = dict(vocab_size=97, hidden_size=42, num_hidden_layers=2, num_attention_heads=3, intermediate_size=50,
            max_position_embeddings=17, eos_token_id=89, bos_token_id=88)
CLIP = dict(text_config=TEXT, vision_config=DEIT, projection_dim=22)
OLD_CLIP = dict(text_config=TEXT | dict(eos_token_id=2, hidden_act="gelu"), vision_config=DEIT)
PATCHES = {key: value for key, value in DEIT.items() if key != "image_size"} | dict(num_patches=16, patch_size=4)
SIGLIP2 = dict(text_config=TEXT | dict(projection_size=40), vision_config=PATCHES)
SIGLIP = dict(text_config=TEXT | dict(projection_size=40), vision_config=DEIT)
AST = {key: value for key, value in DEIT.items() if key != "image_size"} | dict(num_mel_bins=19, max_length=30,
                                                                            frequency_stride=4, time_stride=3)
WAV2VEC2 = dict(vocab_size=31, hidden_size=40, num_hidden_layers=2, num_attention_heads=5, intermediate_size=56,
                conv_dim=(12, 16, 20), conv_kernel=(9, 3, 2), conv_stride=(4, 2, 2), num_conv_pos_embeddings=7,
                num_conv_pos_embedding_groups=4)
WAV2VEC2_LARGE = dict(do_stable_layer_norm=True, feat_extract_norm="layer", conv_bias=True)
MOONSHINE = dict(vocab_size=97, hidden_size=40, intermediate_size=56, encoder_num_hidden_layers=1, decoder_num_hidden_layers=2,
                 encoder_num_attention_heads=5, decoder_num_attention_heads=5, max_position_embeddings=32, pad_token_id=2)
WHISPER = dict(vocab_size=97, d_model=40, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4,
               decoder_attention_heads=2, encoder_ffn_dim=56, decoder_ffn_dim=44, num_mel_bins=12,
               max_source_positions=19, max_target_positions=23, pad_token_id=94, bos_token_id=95, eos_token_id=95,
               decoder_start_token_id=96, suppress_tokens=None, begin_suppress_tokens=None)


BLOOM = dict(vocab_size=97, hidden_size=60, n_layer=2, n_head=5)
MPT = dict(vocab_size=97, d_model=60, n_heads=6, n_layers=2, max_seq_len=64)
YARN = dict(rope_type="yarn", rope_theta=5000.0, factor=4.0, original_max_position_embeddings=16, truncate=False)
LLAMA3 = dict(rope_type="llama3", rope_theta=5000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
PARTIAL = dict(rope_type="default", rope_theta=5000.0, partial_rotary_factor=0.5)
LONGROPE = dict(rope_type="longrope", rope_theta=5000.0, short_factor=[1.0, 1.1, 1.2, 1.4, 1.7, 2.0],
                long_factor=[1.0, 1.5, 2.0, 3.0, 4.0, 6.0], original_max_position_embeddings=16)
DYNAMIC = dict(rope_type="dynamic", rope_theta=5000.0, factor=2.0)


def heads(name, settings):
    """A family of encoders, bare and with every head."""
    yield f"{name}Model", settings, {}
    for head, extra in {"MaskedLM": {}, "SequenceClassification": {"num_labels": 3},
                        "TokenClassification": {"num_labels": 5}, "QuestionAnswering": {}}.items():
        yield f"{name}For{head}", settings, extra
    yield f"{name}ForMaskedLM", settings, {"tie_word_embeddings": False}


# Class, settings, and those off the default which the table shows.
CASES = [
    *heads("Bert", BERT), *heads("DistilBert", DISTILBERT), *heads("Roberta", ROBERTA), *heads("XLMRoberta", ROBERTA),
    *heads("Camembert", ROBERTA), *heads("Albert", ALBERT),
    *heads("MPNet", MPNET), *heads("ModernBert", MODERNBERT), *heads("DebertaV2", DEBERTA),
    ("ModernBertForSequenceClassification", MODERNBERT, dict(classifier_pooling="mean", num_labels=3)),
    ("ModernBertForMaskedLM", MODERNBERT, dict(attention_bias=True, mlp_bias=True, norm_bias=True, classifier_bias=True,
                                               decoder_bias=False)),
    ("DebertaV2ForMaskedLM", DEBERTA, dict(legacy=False, tie_word_embeddings=False)),
    ("DebertaV2Model", DEBERTA, dict(share_att_key=False, norm_rel_ebd="none", type_vocab_size=3)),
    ("DebertaV2Model", DEBERTA, dict(position_buckets=-1, max_relative_positions=8, position_biased_input=True)),
    ("DebertaV2Model", DEBERTA, dict(pos_att_type="c2p", share_att_key=False)),
    ("DebertaV2Model", DEBERTA, dict(pos_att_type="p2c")),
    ("DistilBertForMaskedLM", DISTILBERT, dict(sinusoidal_pos_embds=True)),
    ("GPT2LMHeadModel", GPT2, {}),
    ("GPT2LMHeadModel", GPT2, dict(scale_attn_by_inverse_layer_idx=True, tie_word_embeddings=False)),
    ("GPT2LMHeadModel", GPT2, dict(scale_attn_weights=False, activation_function="relu")),
    ("LlamaForCausalLM", LLAMA, dict(head_dim=20, attention_bias=True, mlp_bias=True)),
    ("LlamaForCausalLM", LLAMA, dict(max_position_embeddings=8, rope_parameters=DYNAMIC)),
    ("LlamaForCausalLM", LLAMA, dict(tie_word_embeddings=True, rope_parameters=LLAMA3)),
    ("LlamaForCausalLM", LLAMA, dict(rope_parameters=YARN)),
    ("MistralForCausalLM", LLAMA, dict(sliding_window=5)),
    ("Qwen2ForCausalLM", LLAMA, dict(use_sliding_window=True, sliding_window=4, max_window_layers=1)),
    ("Qwen3ForCausalLM", LLAMA, dict(head_dim=20, attention_bias=True, tie_word_embeddings=True)),
    ("Qwen3ForCausalLM", LLAMA, dict(use_sliding_window=True, sliding_window=4, max_window_layers=1)),
    ("Qwen3MoeForCausalLM", QWEN3_MOE, dict(decoder_sparse_step=2, norm_topk_prob=True)),
    ("Qwen3MoeForCausalLM", QWEN3_MOE, dict(mlp_only_layers=[1], tie_word_embeddings=True)),
    ("MixtralForCausalLM", MIXTRAL, dict(num_experts_per_tok=3, sliding_window=4)),
    ("Phi3ForCausalLM", PHI3, dict(rope_parameters=PARTIAL, sliding_window=4)),
    ("Phi3ForCausalLM", PHI3, dict(rope_parameters=LONGROPE, tie_word_embeddings=True)),
    ("SmolLM3ForCausalLM", SMOLLM3, dict(no_rope_layer_interval=2, use_sliding_window=True, sliding_window=4)),
    ("GraniteForCausalLM", LLAMA, dict(embedding_multiplier=3.0, attention_multiplier=0.1, residual_multiplier=0.4,
                                       logits_scaling=4.0)),
    ("Olmo2ForCausalLM", LLAMA, dict(attention_bias=True, tie_word_embeddings=True)),
    ("Gemma2ForCausalLM", GEMMA, dict(sliding_window=4, query_pre_attn_scalar=30, attn_logit_softcapping=2.0)),
    ("Gemma2ForCausalLM", GEMMA, dict(attn_logit_softcapping=None, final_logit_softcapping=None, attention_bias=True,
                                      tie_word_embeddings=False)),
    ("Gemma3ForCausalLM", GEMMA, dict(sliding_window=4, sliding_window_pattern=2, final_logit_softcapping=3.0)),
    ("GPTNeoXForCausalLM", NEOX, {}),
    ("GPTNeoXForCausalLM", NEOX, dict(use_parallel_residual=False, attention_bias=False)),
    ("BloomForCausalLM", BLOOM, {}),
    ("BloomForCausalLM", BLOOM, dict(apply_residual_connection_post_layernorm=True)),
    ("MptForCausalLM", MPT, {}), ("MptForCausalLM", MPT, dict(attn_config=dict(clip_qkv=0.8, softmax_scale=0.3))),
    ("LlamaModel", LLAMA, {}), ("GPTNeoXModel", NEOX, {}),
    ("T5ForConditionalGeneration", T5, {}),
    ("T5ForConditionalGeneration", T5, dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    ("MT5ForConditionalGeneration", T5, {}), ("T5EncoderModel", T5, {}), ("MarianMTModel", MARIAN, {}),
    ("MarianMTModel", MARIAN, dict(scale_embedding=True, share_encoder_decoder_embeddings=False)),
    ("BartForConditionalGeneration", BART, {}), ("BartForConditionalGeneration", BART, dict(tie_word_embeddings=False)),
    ("MBartForConditionalGeneration", BART, dict(scale_embedding=True)),
    ("M2M100ForConditionalGeneration", BART, {}),
    ("M2M100ForConditionalGeneration", BART, dict(scale_embedding=False, activation_function="gelu")),
    ("PegasusForConditionalGeneration", PEGASUS, dict(scale_embedding=True)),
    ("ViTModel", VIT, {}), ("ViTForImageClassification", VIT, dict(num_labels=3)),
    ("ViTForImageClassification", VIT, dict(image_size=[27, 20], patch_size=[5, 4], qkv_bias=False)),
    ("DeiTForImageClassificationWithTeacher", DEIT, dict(num_labels=3)), ("DeiTModel", DEIT, {}), ("DeiTForImageClassification", DEIT, dict(num_labels=3, qkv_bias=False)),
    ("Dinov2Model", DINOV2, {}), ("Dinov2ForImageClassification", DINOV2, dict(num_labels=3, use_swiglu_ffn=True)),
    ("Dinov2WithRegistersModel", DINOV2, dict(num_register_tokens=2, use_swiglu_ffn=True)),
    ("Dinov2WithRegistersForImageClassification", DINOV2, dict(num_labels=3, num_register_tokens=3)),
    ("Dinov2Model", DINOV2, dict(pixels=[40, 16])),
    ("Dinov2WithRegistersModel", DINOV2, dict(num_register_tokens=1, pixels=[16, 56])),
    ("DINOv3ViTModel", DINOV3, {}),
    ("DINOv3ViTModel", DINOV3, dict(use_gated_mlp=True, key_bias=True, mlp_bias=False, pixels=[40, 16])),
    ("CLIPModel", CLIP, {}), ("CLIPModel", OLD_CLIP, dict(projection_dim=30)),
    ("CLIPTextModel", TEXT, {}), ("CLIPTextModelWithProjection", TEXT, dict(projection_dim=22)),
    ("CLIPVisionModel", DEIT, {}), ("CLIPVisionModelWithProjection", DEIT, dict(projection_dim=22)),
    ("SiglipModel", SIGLIP, {}), ("SiglipTextModel", TEXT, dict(projection_size=22)), ("SiglipVisionModel", DEIT, {}),
    ("SiglipVisionModel", DEIT, dict(vision_use_head=False)),
    ("Siglip2Model", SIGLIP2, {}), ("Siglip2TextModel", TEXT, dict(projection_size=22)), ("Siglip2VisionModel", PATCHES, {}),
    ("ASTModel", AST, {}), ("ASTForAudioClassification", AST, dict(num_labels=3, qkv_bias=False, time_stride=9)),
    ("Wav2Vec2Model", WAV2VEC2, {}), ("Wav2Vec2ForCTC", WAV2VEC2, dict(num_conv_pos_embeddings=8, mask_time_prob=0.0)),
    ("Wav2Vec2Model", WAV2VEC2, WAV2VEC2_LARGE), ("Wav2Vec2ForCTC", WAV2VEC2, WAV2VEC2_LARGE),
    ("MoonshineForConditionalGeneration", MOONSHINE, {}),
    ("MoonshineForConditionalGeneration", MOONSHINE, dict(partial_rotary_factor=0.4, attention_bias=True,
                                                          tie_word_embeddings=False, decoder_hidden_act="gelu")),
    ("WhisperForConditionalGeneration", WHISPER, {}),
    ("WhisperForConditionalGeneration", WHISPER, dict(tie_word_embeddings=False, activation_function="relu")),
]


def shown(settings):
    """`key value`; of rotary positions the kind of scaling, or without one the share of each head."""
    texts = []
    for key, value in settings.items():
        if key == "rope_parameters":
            kind = value["rope_type"]
            texts.append(shown({"partial_rotary_factor": value["partial_rotary_factor"]}) if kind == "default" else kind)
        elif isinstance(value, dict):
            texts.append(shown(value))
        else:
            texts.append(f"{key} {value}")
    return ", ".join(texts)


def randomize(model):
    """Biases and norms are random too, and matrices large, so that mistakes show."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if not p.requires_grad:
                continue
            noise = torch.randn(p.shape, generator=generator)
            if p.dim() > 1:
                embedding = any(part in name for part in ("embed", "wte", "wpe", "shared"))
                p.copy_(noise * (0.6 if embedding else 1.3 / math.sqrt(p.shape[-1])))
            else:
                is_gain = name.endswith("weight")
                p.copy_(noise * 0.2 + (1.0 if is_gain else 0.0))
    model.tie_weights()
    return model.eval()


def inputs_of(model, size):
    generator = torch.Generator().manual_seed(8)
    names, inputs = inspect.signature(model.forward).parameters, {}
    if "pixel_values" in names:
        config = getattr(model.config, "vision_config", model.config)
        if "spatial_shapes" in names:
            inputs = {"pixel_values": torch.randn(2, 20, config.num_channels * config.patch_size ** 2, generator=generator),
                      "pixel_attention_mask": torch.ones(2, 20, dtype=torch.int64), "spatial_shapes": torch.tensor([[4, 5], [2, 7]])}
            inputs["pixel_attention_mask"][1, 14:] = 0
        else:
            size = size or config.image_size
            height, width = (size, size) if isinstance(size, int) else size
            inputs = {"pixel_values": torch.randn(2, config.num_channels, height, width, generator=generator)}
        if "input_ids" not in names:
            return inputs
    if model.config.model_type == "audio-spectrogram-transformer":
        return {"input_values": torch.randn(2, model.config.max_length, model.config.num_mel_bins, generator=generator)}
    if model.config.model_type in ("wav2vec2", "moonshine"):
        inputs = {"input_values": torch.randn(2, 3000, generator=generator), "attention_mask": torch.ones(2, 3000, dtype=torch.int64)}
        inputs["attention_mask"][1, 2000:] = 0
        if model.config.model_type == "moonshine":
            inputs["decoder_input_ids"] = torch.randint(3, 90, (2, 11), generator=generator)
        return inputs
    if model.config.model_type == "whisper":
        shape = (2, model.config.num_mel_bins, 2 * model.config.max_source_positions)
        return {"input_features": torch.randn(shape, generator=generator),
                "decoder_input_ids": torch.randint(3, 90, (2, 11), generator=generator)}
    ids = torch.randint(3, 90, (2, 17), generator=generator)
    inputs |= {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    inputs["attention_mask"][1, 15:] = 0
    if getattr(model.config, "type_vocab_size", 1) > 1:
        inputs["token_type_ids"] = torch.randint(0, 3, ids.shape, generator=generator)
    if "decoder_input_ids" in names:
        inputs["decoder_input_ids"] = torch.randint(3, 90, (2, 11), generator=generator)
    return inputs


def results_of(model, inputs):
    with torch.no_grad():
        out = model(**inputs, output_hidden_states=True, output_attentions=True, return_dict=True)
    flat = flattened(out, "")
    if getattr(model.config, "do_stable_layer_norm", False):  # heed ends with the normed state, as transformers up to 5.12
        del flat[f"hidden_states.{model.config.num_hidden_layers}"]
    return flat


def flattened(out, prefix):
    flat = {}
    for name, value in out.items():
        if torch.is_tensor(value):
            flat[prefix + name] = value
        elif isinstance(value, tuple):
            flat |= {f"{prefix}{name}.{i}": element for i, element in enumerate(value)}
        elif value is not None:  # the output of a tower
            flat |= flattened(value, f"{prefix}{name}.")
    return flat


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")


def kind_of(name):
    if "hidden_states." in name:
        return "hidden states"
    return "attentions" if "attentions." in name else "outputs"


def differences(actual, expected):
    largest = {}
    for name, want in expected.items():
        difference = ((actual[name] - want).abs().max() / want.abs().max()).item()
        kind = kind_of(name)
        largest[kind] = max(largest.get(kind, 0.0), difference)
    return largest


def check(class_name, settings, heed, save_again, folder):
    kind = getattr(transformers, class_name)
    pixels = settings.pop("pixels", None)
    model = randomize(kind(kind.config_class(**settings)))
    model.set_attn_implementation("eager")
    inputs = inputs_of(model, pixels)
    expected = results_of(model, inputs)
    made, saved = folder / "made", folder / "saved"
    model.save_pretrained(made)
    save_file(inputs, folder / "in.safetensors")
    run(heed, "forward", "--quiet", "--model", made, "--input", folder / "in.safetensors",
        "--output", folder / "out.safetensors", "--hidden-states", "--attentions")
    found = differences(load_file(folder / "out.safetensors"), expected)
    run(save_again, made, saved)
    again, info = kind.from_pretrained(saved, attn_implementation="eager", output_loading_info=True)
    if any(info[what] for what in ("missing_keys", "unexpected_keys", "mismatched_keys")):
        sys.exit(f"{class_name}: saved with other tensors: {info}")
    reopened = results_of(again.eval(), inputs)
    equal = all(torch.equal(reopened[name], want) for name, want in expected.items())
    return found, equal


def main():
    heed, save_again = sys.argv[1:]
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    print("| class | with | outputs | hidden states | attentions | saved and reopened |")
    print("|---|---|---|---|---|---|")
    failed = []
    for class_name, settings, special in CASES:
        with tempfile.TemporaryDirectory() as folder:
            found, equal = check(class_name, settings | special, heed, save_again, Path(folder))
        kinds = " | ".join(f"{found[kind]:.1e}" for kind in ("outputs", "hidden states", "attentions"))
        print(f"| {class_name} | {shown(special)} | {kinds} | {'equal' if equal else 'DIFFERENT'} |", flush=True)
        if not equal or max(found.values()) > LIMIT:
            failed.append(class_name)
    if failed:
        sys.exit(f"too far from transformers: {', '.join(failed)}")


main()
