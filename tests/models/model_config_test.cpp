// Configs that make no model are refused by name, before a tensor is looked at and before memory is asked
// for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "heed/files/file.h"
#include "heed/models/registry.h"
#include "reference/error.h"

namespace heed {
namespace {

// The error of making a model from a fixture's config in which `key`, perhaps of an object within
// (decoder.KEY), has another value; "" without one.
std::string refusal_of(const std::string& fixture, const char* key, const char* value) {
  auto json = nlohmann::ordered_json::parse(
      read_file(std::filesystem::path(HEED_FIXTURES) / fixture / "config.json"));
  if (fixture.starts_with("vit")) json.erase("id2label");  // or num_labels would count no more
  std::string path = std::string("/") + key;
  std::replace(path.begin(), path.end(), '.', '/');
  json[nlohmann::ordered_json::json_pointer(path)] = nlohmann::json::parse(value);
  return error_of([&] {
    Generator generator(1);
    make_model(Config::parse(json.dump(), "DIR/config.json"), generator);
  });
}

TEST(ModelConfig, WhatMakesNoModelIsRefusedByName) {
  struct {
    const char *fixture, *key, *value, *message;
  } cases[] = {
      {"t5", "feed_forward_proj", R"("gated-gelu-new")", "expected ACTIVATION or gated-ACTIVATION"},
      {"t5", "feed_forward_proj", R"("glued")", "glued"},
      {"t5", "relative_attention_num_buckets", "2", "expected at least 4"},
      {"t5", "relative_attention_max_distance", "16", "more than half of relative_attention_num_buckets"},
      {"t5", "num_layers", "1001", "at most 1000 layers"},
      {"t5", "num_decoder_layers", "0", "expected an integer of at least 1"},
      {"t5", "d_kv", "4611686018427387904", "at most 1073741824"},
      {"t5", "d_model", "48.5", "expected an integer"},
      {"t5", "dropout_rate", "1.0", "a probability in [0, 1)"},
      {"t5", "decoder_start_token_id", "653", "an id in [0, 653)"},
      {"t5", "tie_word_embeddings", "1", "expected true or false"},
      {"bart", "encoder_attention_heads", "5", "divides the model dimension 48"},
      {"bart", "decoder_attention_heads", "0", "an integer of at least 1"},
      {"bart", "pad_token_id", "-1", "an id in [0, 421)"},
      {"bart", "activation_function", R"("step")", "step"},
      {"bart", "scale_embedding", R"("yes")", "expected true or false"},
      {"bart", "encoder_layers", "1.5", "expected an integer"},
      {"marian", "max_position_embeddings", "1000000000", "at most 65536"},
      {"marian", "decoder_vocab_size", "540", "as embeddings are shared"},
      {"marian", "vocab_size", "null", "expected an integer"},
      {"bart", "new_setting", "true", "only known settings"},
      {"transformer-seq2seq", "architecture", R"("turtle")", "one of decoder, encoder, encoder-decoder"},
      {"transformer-seq2seq", "attention", R"("strided")", "full, window or linear with an encoder"},
      {"transformer-seq2seq", "pad_token_id", "null", "an id in an encoder-decoder"},
      {"transformer-seq2seq", "norm_placement", R"("none")", "one of pre, post"},
      {"decoders/transformer-linear", "attention", R"("square")",
       "one of full, window, strided, fixed, linear"},
      {"decoders/transformer-linear", "position_embedding_type", R"("rotary")", "another than rotary"},
      {"decoders/transformer-linear", "attention_probs_dropout_prob", "0.1", "0 with attention linear"},
      {"decoders/transformer-linear", "initializer_range", "0", "a number above 0"},
      {"decoders/transformer-strided", "attention_stride", "0", "an integer of at least 1"},
      {"decoders/transformer-strided", "position_embedding_type", R"("alibi")", "another than alibi"},
      {"decoders/transformer-strided", "num_attention_heads", "16", "heads of an even dimension"},
      {"decoders/transformer-fixed", "attention_summary", "5", "at most attention_stride"},
      {"decoders/transformer-window", "attention_stride", "4", "only known settings"},
      {"recurrent/none-lstm", "cell", R"("rnn")", "one of lstm, gru"},
      {"recurrent/none-lstm", "attention", R"("self")", "one of none, additive, dot, general, concat"},
      {"recurrent/none-lstm", "input_feeding", "true", "false without attention"},
      {"recurrent/additive-gru", "input_feeding", "true", "which feeds its context"},
      {"recurrent/additive-gru", "hidden_size", "9", "an even number"},
      {"recurrent/additive-gru", "decoder_layers", "2", "at most encoder_layers"},
      {"recurrent/dot-gru", "embedding_size", "8", "tie_word_embeddings"},
      {"recurrent/dot-gru", "encoder_layers", "0", "at least 1"},
      {"recurrent/dot-gru", "dropout", "1.5", "a probability in [0, 1)"},
      {"recurrent/dot-gru", "initializer_range", "0", "a number above 0"},
      {"recurrent/dot-gru", "vocab_size", "null", "an integer"},
      {"recurrent/dot-gru", "pad_token_id", "36", "an id in [0, 36)"},
      {"recurrent/dot-gru", "new_setting", "true", "only known settings"},
      {"vit", "architectures", R"(["ViTForObjectDetection"])", "ViTModel, ViTForImageClassification or"},
      {"audio-spectrogram", "architectures", R"(["ASTForPreTraining"])", "ASTModel or ASTForAudioClass"},
      {"audio-spectrogram", "patch_size", "21", "at most num_mel_bins and max_length"},
      {"audio-spectrogram", "patch_size", "[8, 8]", "patch_size"},
      {"audio-spectrogram", "frequency_stride", "0", "an integer of at least 1"},
      {"audio-spectrogram", "time_stride", "65537", "at most 65536"},
      {"audio-spectrogram", "num_mel_bins", "65537", "at most 65536"},
      {"audio-spectrogram", "max_length", "4611686018427387904", "at most"},
      {"wav2vec2-ctc", "architectures", R"(["Wav2Vec2ForPreTraining"])", "Wav2Vec2ForCTC or Wav2Vec2Model"},
      {"wav2vec2-ctc", "conv_kernel", "[6, 3]", "one for each of the 3 layers of conv_dim"},
      {"wav2vec2-ctc", "conv_stride", "[4, 2, 0]", "numbers from 1 to 16777216"},
      {"wav2vec2-ctc", "conv_stride", "[65536, 65536, 65536]", "frames of at most 16777216 samples"},
      {"wav2vec2-ctc", "conv_dim", "[16, 16, 1048577]", "numbers from 1 to 1048576"},
      {"wav2vec2-ctc", "feat_extract_norm", R"("batch")", "group or layer"},
      {"wav2vec2-ctc", "num_conv_pos_embedding_groups", "3", "a divisor of hidden_size 32"},
      {"wav2vec2-ctc", "num_conv_pos_embeddings", "65537", "at most 65536"},
      {"wav2vec2-ctc", "pad_token_id", "24", "an id in [0, 24)"},
      {"wav2vec2-ctc", "ctc_loss_reduction", R"("none")", "sum or mean"},
      {"wav2vec2-ctc", "add_adapter", "true", "are not run"},
      {"wav2vec2-ctc", "adapter_attn_dim", "16", "are not read"},
      {"moonshine", "architectures", R"(["MoonshineForCTC"])", "MoonshineForConditionalGeneration or"},
      {"moonshine", "encoder_num_key_value_heads", "2", "as many as encoder_num_attention_heads"},
      {"moonshine", "decoder_num_attention_heads", "5", "divides the model dimension 32"},
      {"moonshine", "eos_token_id", "140", "an id in [0, 140)"},
      {"vit", "patch_size", "33", "at most the sizes of image_size"},
      {"vit", "patch_size", "0", "1 to 65536"},
      {"vit", "image_size", "4611686018427387904", "1 to 65536"},
      {"vit", "image_size", "[32, 32, 32]", "one number or two"},
      {"dinov2", "image_size", "[32, 24]", "a square number"},
      {"vit", "num_attention_heads", "5", "divides the model dimension 48"},
      {"vit", "pooler_act", R"("step")", "step"},
      {"vit", "layer_norm_eps", "-1e-5", "layer_norm_eps"},
      {"vit", "new_setting", "true", "only known settings"},
      {"vit", "num_labels", "1073741824", "at most 1048576"},
      {"dinov2", "mlp_ratio", "1e30", "at most 1024"},
      {"dinov2", "mlp_ratio", "1e300", "expected a number that f32 holds"},
      {"dinov2", "mlp_ratio", "0", "a number above 0"},
      {"dinov2", "mlp_ratio", "0.001", "at least one unit"},
      {"dinov2", "architectures", R"(["Dinov2ForSemanticSegmentation"])", "one that ends in Model"},
      {"dinov2-with-registers", "num_register_tokens", "65537", "0 to 65536"},
      {"dinov2-with-registers", "num_register_tokens", "-1", "0 to 65536"},
      {"dinov3-vit", "num_attention_heads", "16", "a multiple of 4 dimensions"},
      {"dinov3-vit", "rope_theta", "0", "a number above 0"},
      {"dinov3-vit", "rope_theta", "1e-320", "a number that f32 holds"},
      {"decoders/gpt2", "layer_norm_epsilon", "1e308", "a number of at most 1"},
      {"dinov3-vit", "model_type", R"("dinov3_convnext")", "expected dinov3_vit"},
      {"dinov3-vit", "architectures", R"(["DINOv3ViTBackbone"])", "one that ends in Model"},
      {"vit", "architectures", R"(["DeiTForImageClassificationWithTeacher"])", "ViTModel"},
      {"vit-gpt2", "architectures", R"(["EncoderDecoderModel"])", "VisionEncoderDecoderModel"},
      {"vit-gpt2", "encoder", "null", "encoder"},
      {"vit-gpt2", "decoder", R"("gpt2")", "decoder"},
      {"vit-gpt2", "encoder.model_type", R"("swin")",
       "one of deit, dinov2, dinov2_with_registers, dinov3_vit, vit"},
      {"vit-gpt2", "decoder.model_type", R"("llama")",
       "one of bert, camembert, gpt2, roberta, trocr, xlm-roberta"},
      {"vit-gpt2", "encoder.patch_size", "33", "at most the sizes of image_size"},
      {"vit-gpt2", "encoder.new_setting", "true", "only known settings"},
      {"vit-gpt2", "decoder.new_setting", "true", "only known settings"},
      {"vit-gpt2", "decoder.add_cross_attention", "false", "expected true"},
      {"vit-gpt2", "decoder.cross_attention_hidden_size", "48",
       "expected null, as this decoder reads states of its own width"},
      {"vit-gpt2", "decoder_start_token_id", "512", "an id in [0, 512)"},
      {"vit-gpt2", "eos_token_id", "-1", "an id in [0, 512)"},
      {"trocr", "decoder.cross_attention_hidden_size", "24", "the encoder's hidden_size, 32"},
      {"trocr", "decoder.decoder_attention_heads", "5", "divides the model dimension 24"},
      {"trocr", "decoder.pad_token_id", "421", "an id in [0, 421)"},
      {"variants/trocr-sinusoidal", "decoder.max_position_embeddings", "65537", "at most 65536"},
      {"variants/vit-bert", "decoder.is_decoder", "false",
       "true for a decoder that reads an encoder's output"},
      {"variants/vit-bert", "decoder.add_cross_attention", "null", "true for a decoder"},
      {"variants/vit-bert", "decoder.position_embedding_type", R"("relative_key")", "absolute"},
      {"variants/dinov3-roberta", "decoder.max_position_embeddings", "2", "more than pad_token_id + 1"},
      {"whisper", "architectures", R"(["WhisperForAudioClassification"])", "WhisperForConditionalGeneration"},
      {"whisper", "max_source_positions", "1000000000", "at most 65536"},
      {"whisper", "num_mel_bins", "0", "an integer of at least 1"},
      {"whisper", "decoder_attention_heads", "7", "divides the model dimension 48"},
      {"whisper", "decoder_start_token_id", "130", "an id in [0, 130)"},
      {"whisper", "dropout", "-0.5", "a probability in [0, 1)"},
      {"decoders/smollm3", "no_rope_layer_interval", "0", "an integer of at least 1"},
      {"decoders/smollm3", "no_rope_layers", "[1, 0]", "expected 0 or 1 for each of 3 layers"},
      {"decoders/smollm3", "layer_types", R"(["full_attention"])", "expected one for each of 3 layers"},
      {"decoders/granite", "logits_scaling", "0", "expected a number above 0, got 0"},
      {"decoders/granite", "residual_multiplier", "-1", "a number above 0"},
      {"decoders/olmo2", "hidden_act", R"("prelu")", "prelu"},
      {"decoders/gemma2", "attn_logit_softcapping", "0", "expected a number above 0, got 0"},
      {"decoders/gemma2", "final_logit_softcapping", "-30", "expected a number above 0, got -30"},
      {"decoders/gemma2", "query_pre_attn_scalar", "0", "a number above 0"},
      {"decoders/gemma2", "sliding_window", "0", "an integer of at least 1"},
      {"decoders/gemma2", "sliding_window", "null", "a number of tokens"},
      {"decoders/gemma2", "hidden_activation", R"("prelu")", "prelu"},
      {"decoders/gemma3", "use_bidirectional_attention", "true", "false, as tokens attend to earlier ones"},
      {"decoders/gemma3", "sliding_window_pattern", "0", "an integer of at least 1"},
      {"decoders/gemma3", "layer_types", R"(["chunked_attention", "a", "a", "a"])",
       "expected full_attention and sliding_attention only"},
      {"decoders/gemma3", "model_type", R"("gemma3")", "expected gemma3_text"},
      {"decoders/bloom", "n_head", "65537", "at most 65536 heads"},
      {"variants/llama-padding", "rms_norm_eps", "-1e-5", "expected a number of at least 0, got -1e-05"},
      {"variants/gpt2-common-names", "layer_norm_epsilon", "-1e-5",
       "expected a number of at least 0, got -1e-05"},
      {"variants/bert-padding", "layer_norm_eps", "-1e-5", "expected a number of at least 0, got -1e-05"},
      {"variants/t5-dense-act-fn", "layer_norm_epsilon", "-1e-5",
       "expected a number of at least 0, got -1e-05"},
      {"variants/llama-padding", "pad_token_id", "31", "expected an id in [0, 31), got 31"},
      {"variants/qwen2-last-padding", "pad_token_id", "-32", "an id in [0, "},
      {"variants/gpt-neox-no-rotary", "rotary_pct", "1.5", "expected a number from 0 to 1, got 1.5"},
      {"variants/gpt2-common-names", "num_attention_heads", "5",
       "expected a number of heads that divides the model dimension 12"},
      {"variants/t5-dense-act-fn", "dense_act_fn", R"("prelu")", "prelu"},
  };
  for (const auto& c : cases) {
    const std::string error = refusal_of(c.fixture, c.key, c.value);
    SCOPED_TRACE(std::string(c.fixture) + " " + c.key + " " + c.value);
    EXPECT_THAT(error, testing::StartsWith(std::string("DIR/config.json: ") + c.key));
    EXPECT_THAT(error, testing::HasSubstr(c.message));
  }
  EXPECT_EQ(refusal_of("variants/llama-padding", "rms_norm_eps", "0"), "no error");
  EXPECT_EQ(refusal_of("variants/vit-bert", "decoder.architectures", R"(["BertLMHeadModel"])"), "no error");
  EXPECT_EQ(refusal_of("variants/vit-bert", "encoder.architectures", R"(["ViTForImageClassification"])"),
            "no error");
}

}  // namespace
}  // namespace heed
