// Marian (Junczys-Dowmunt et al. 2018): the original encoder-decoder Transformer as Hugging Face's
// MarianMTModel runs it. Post-norm layers, sinusoidal positions with all sines before all cosines, embeddings
// shared by encoder, decoder and output, a stored bias on the logits.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "heed/io/json.h"
#include "heed/models/model.h"

namespace heed {

/// The settings of config.json, under its names.
struct MarianConfig {
  std::int64_t vocab_size = 0;
  std::int64_t decoder_vocab_size = 0;
  std::int64_t d_model = 512;
  std::int64_t encoder_layers = 6;
  std::int64_t decoder_layers = 6;
  std::int64_t encoder_attention_heads = 8;
  std::int64_t decoder_attention_heads = 8;
  std::int64_t encoder_ffn_dim = 2048;
  std::int64_t decoder_ffn_dim = 2048;
  std::int64_t max_position_embeddings = 512;
  std::string activation_function = "swish";
  double dropout = 0.1;
  double attention_dropout = 0.0;
  double activation_dropout = 0.0;
  bool scale_embedding = true;
  bool share_encoder_decoder_embeddings = true;
  bool tie_word_embeddings = true;
  std::int64_t pad_token_id = 0;
  std::int64_t eos_token_id = 0;
  std::int64_t decoder_start_token_id = 0;
  std::optional<std::int64_t> forced_eos_token_id;

  /// Reads config.json; throws Error for invalid values and for unknown keys that would change the result.
  static MarianConfig parse(const Config& json);
};

/// A new model with random weights (f32).
std::unique_ptr<EncoderDecoderModel> make_marian(const MarianConfig& config, Generator& generator);
/// The model of a directory in Hugging Face layout, its weights held as `dtype`.
std::unique_ptr<EncoderDecoderModel> load_marian(const std::filesystem::path& directory,
                                                 DType dtype = DType::f32);

}  // namespace heed
