// What the checks of one model share: its config, its pathways (the ways in which tokens reach what it
// computes), token ids to feed, and statistics of its tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heed/doctor.h"
#include "heed/io/json.h"
#include "heed/models/kind.h"

namespace heed::doctor {

/// What rows of ids are made of where the tokenizer knows its words.
inline constexpr const char* kProse =
    "The old dog slept near the door while the man read a letter from his sister. She wrote that the river "
    "was high again, and that two of the boats had gone. In the morning he walked down to the water, sat on "
    "a stone, and watched a small bird cross from one side to the other. Nobody bites a man who waits, he "
    "thought, but the dog had never heard of that.";

/// One way in which a model reads rows of ids: as a decoder, as an encoder, or as the source of a decoder.
struct Pathway {
  /// "decoder", "encoder", "text_encoder", "image_encoder" or "source"; of all but the last also the name of
  /// the stack's taps.
  std::string name;
  bool causal = false;
  bool tokens = true;  ///< false: a row of ids is the seed of an image or of a spectrogram
  bool masks = true;   ///< takes a mask of padding
  /// ids i64 [B, T], a mask i64 [B, T] or undefined, and position ids or undefined, to [B, T', D].
  std::function<Tensor(const Tensor& ids, const Tensor& mask, const Tensor& positions, Context& context)> run;

  Tensor operator()(const Tensor& ids, Context& context) const { return run(ids, {}, {}, context); }
  Tensor operator()(const Tensor& ids) const;
  /// Whether the pathway is a stack of layers with taps.
  bool is_stack() const { return name != "source"; }
};

/// Of one tensor of the files.
struct TensorStatistics {
  std::string name;
  std::filesystem::path file;
  std::int64_t rows = 0, columns = 0;
  std::int64_t nan = 0, infinite = 0;
  std::string first_non_finite = {};  ///< `NAME[2, 5] is NaN`; empty if all are finite
  std::int64_t zero_rows = 0,
               repeated_rows = 0;  ///< of matrices; repeated: equal to an earlier row, not zeros
  double rms = 0;
};

/// How many outputs of a pathway, or of the output map, are NaN or infinite.
struct OutputCount {
  std::string name;
  std::int64_t outputs = 0, non_finite = 0;
  std::string first;  ///< the first part or layer whose output is not finite, where taps know it
};

class Examination {
 public:
  explicit Examination(const CheckedModel& checked);
  Examination(const Examination&) = delete;

  const CheckedModel& checked;
  /// Only for checks that need a model.
  const Model& model() const { return *checked.model; }
  ModelTraits traits() const { return traits_of(model()); }
  /// Whether the model predicts one token after another.
  bool decodes() const;
  /// That of the model, or, where it cannot be loaded, what config.json says; 0: none.
  std::int64_t vocab_size() const;
  const Tokenizer* tokenizer() const { return checked.tokenizer; }
  /// The model's config.json; nullopt without files.
  const std::optional<Config>& config() const { return config_; }
  /// Whether all outputs for ordinary ids are finite: for those that other checks feed, too.
  bool is_finite();
  /// Runs each pathway, and the output map, once.
  const std::vector<OutputCount>& outputs();
  /// Reads all tensors of the files once.
  const std::vector<TensorStatistics>& weights();
  const std::vector<Pathway>& pathways() const { return pathways_; }

  /// Rows of ordinary token ids, each different: text, where there is a tokenizer; i64 [rows, length].
  Tensor ids(std::int64_t rows, std::int64_t length) const;
  /// Another ordinary id than this.
  std::int64_t other_id(std::int64_t id) const;
  /// The ids in `stream` order: at least 8 different ones, if the vocabulary has them.
  const std::vector<std::int64_t>& stream() const { return stream_; }
  /// `wanted`, or as many positions as the model has.
  std::int64_t length(std::int64_t wanted) const;
  /// The id that pads rows.
  std::int64_t pad_id() const;
  /// Starts decoding `rows` rows (with one source for all); null for a model that does not decode.
  std::unique_ptr<Decoding> decode(std::int64_t rows) const;
  /// The logits [rows, V] after the last of ids [rows, T], without a cache; undefined without an output map.
  Tensor full_logits(const Tensor& ids) const;
  /// An id below the sizes of all vocabularies.
  std::int64_t id_limit() const;

 private:
  void add_pathways();
  void fill_stream();
  void add_encoder_pathway(const char* name, const EncoderModel& encoder);
  void add_both_pathways(const EncoderDecoderModel& both);
  TensorMap decoder_inputs(const Tensor& ids) const;
  /// What the encoder makes of the decoder's source, the same in each of `rows` rows; computed once.
  Tensor source_states(std::int64_t rows) const;
  Tensor same_rows(std::int64_t rows, std::int64_t wanted) const;
  /// What the first layer takes: the ids and their mask, or noise of which each row of ids is the seed.
  ModelInput first_input(const InputSpec& wanted, const Tensor& ids, const Tensor& mask) const;

  std::optional<Config> config_;
  std::vector<Pathway> pathways_;
  std::vector<std::int64_t> stream_;
  mutable Tensor source_states_;  // [1, S, D]
  std::optional<std::vector<TensorStatistics>> weights_;
  std::optional<std::vector<OutputCount>> outputs_;
};

/// max |a - b| / max |a|, of tensors of one shape; NaN counts as infinite.
double relative_difference(const Tensor& a, const Tensor& b);
/// `0.4 %`, `23 %`, `140 %`: two digits, from 100 on all of them.
std::string percent(double part);
bool same_bits(const Tensor& a, const Tensor& b);
/// Position t of x [B, T, D], as [B, D].
Tensor at_position(const Tensor& x, std::int64_t t);

/// Adds what a pathway, or a part of a check, has found: the worse status wins, measurements are joined.
void add(Finding& total, const std::string& what, Finding part);
/// A finding that skips, with the reason.
Finding skip(std::string reason);

// All checks. Each looks at one thing and says what it found; src/doctor/doctor.cpp lists them with what they
// need, and docs/doctor.md has their thresholds and the reasons.

// Files (file_checks.cpp, vocabulary_checks.cpp, weight_checks.cpp, input_checks.cpp)
Finding check_loading(Examination& e);
Finding check_config_keys(Examination& e);
Finding check_config_values(Examination& e);
Finding check_generation_settings(Examination& e);
Finding check_chat_template(Examination& e);
Finding check_tied_weights(Examination& e);
Finding check_tokenizer_size(Examination& e);
Finding check_special_ids(Examination& e);
Finding check_case(Examination& e);
Finding check_processor(Examination& e);
Finding check_pooling(Examination& e);
Finding check_unused_vocabulary(Examination& e);
Finding check_weights_finite(Examination& e);
Finding check_weight_rows(Examination& e);
Finding check_weight_norms(Examination& e);
Finding check_norm_weights(Examination& e);

// Behavior (order_checks.cpp, invariance_checks.cpp, decoding_checks.cpp)
Finding check_outputs_finite(Examination& e);
Finding check_causality(Examination& e);
Finding check_order(Examination& e);
Finding check_right_padding(Examination& e);
Finding check_left_padding(Examination& e);
Finding check_batch(Examination& e);
Finding check_threads(Examination& e);
Finding check_cache(Examination& e);
Finding check_beams(Examination& e);
Finding check_decoder_start(Examination& e);

// Attention and layers (attention_checks.cpp, head_check.cpp, length_check.cpp)
Finding check_attention_rows(Examination& e);
Finding check_scores(Examination& e);
Finding check_heads(Examination& e);
Finding check_residual(Examination& e);
Finding check_lengths(Examination& e);

}  // namespace heed::doctor
