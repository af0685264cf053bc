// What steers generation, under the names of Hugging Face transformers' generation options.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace heed {

/// When beam search stops while better hypotheses might still come.
enum class EarlyStopping : std::uint8_t {
  no,     ///< when the best running beam, taken at its present length, cannot beat the worst finished one
  yes,    ///< as soon as num_beams hypotheses are finished
  never,  ///< when no running beam can beat the worst finished one at any length
};

/// `bias` is added to the score of the last of `ids` after the others.
struct SequenceBias {
  std::vector<std::int64_t> ids;
  double bias = 0;
};

struct GenerationOptions {
  // Lengths. `max_length` and `min_length` count the prompt (the start token of a decoder too); the
  // `new_tokens` options win over them. With neither maximum, 20 new tokens are made, or as many as the
  // positions of training leave.
  std::optional<std::int64_t> max_new_tokens = {};
  std::optional<std::int64_t> max_length = {};
  std::optional<std::int64_t> min_new_tokens = {};
  std::int64_t min_length = 0;

  // Beam search.
  std::int64_t num_beams = 1;
  std::int64_t num_return_sequences = 1;
  double length_penalty = 1.0;  ///< a hypothesis scores sum of log-probabilities / length^length_penalty
  EarlyStopping early_stopping = EarlyStopping::no;

  // What may be said; see processors.h for the formulas and the order.
  double repetition_penalty = 1.0;
  double encoder_repetition_penalty =
      1.0;  ///< above 1: for the tokens of the source (of a decoder, the prompt)
  std::int64_t no_repeat_ngram_size = 0;
  std::int64_t encoder_no_repeat_ngram_size = 0;
  std::vector<SequenceBias> sequence_bias = {};
  /// After so many new tokens the end's score grows by a factor a token.
  std::optional<std::pair<std::int64_t, double>> exponential_decay_length_penalty = {};
  std::vector<std::vector<std::int64_t>> bad_words_ids = {};
  std::vector<std::int64_t> suppress_tokens = {};
  std::vector<std::int64_t> begin_suppress_tokens = {};
  bool renormalize_logits = false;
  bool remove_invalid_values = false;  ///< NaN scores become 0 and infinite ones the largest numbers

  // Special tokens.
  std::vector<std::int64_t> eos_token_id = {};
  std::optional<std::int64_t> pad_token_id = {};
  std::optional<std::int64_t> bos_token_id = {};
  std::optional<std::int64_t> decoder_start_token_id = {};
  std::optional<std::int64_t> forced_bos_token_id = {};
  std::vector<std::int64_t> forced_eos_token_id = {};

  // Sampling.
  bool do_sample = false;
  double temperature = 1.0;
  std::int64_t top_k = 50;  ///< 0 = no limit
  double top_p = 1.0;
  std::optional<double> top_h = {};
  std::optional<double> min_p = {};
  double typical_p = 1.0;
  double epsilon_cutoff = 0.0;
  double eta_cutoff = 0.0;
  std::uint64_t seed = 0;
};

/// The options of generation_config.json in a model's directory; where there is none, those that older models
/// have in config.json itself. Keys of generation_config.json that are not understood, or ask for what heed
/// does not do, are named in `unused`, where given. Throws Error when the file is malformed or a value is of
/// the wrong type or out of range.
GenerationOptions load_generation_options(const std::filesystem::path& directory,
                                          std::vector<std::string>* unused = nullptr);

/// Puts what config.json's `task_specific_params` says of a task (`summarization`, `translation_en_to_de`)
/// over the options, and returns what it wants put before every text. Throws Error when there is no such
/// task.
std::string apply_task(const std::filesystem::path& directory, const std::string& task,
                       GenerationOptions& options);

/// Throws Error naming the first option that is out of range or contradicts another, or (but for
/// eos_token_id) names a token outside a vocabulary of `vocab_size`, where that is known.
void check_generation_options(const GenerationOptions& options, std::optional<std::int64_t> vocab_size = {});

/// Longest sequence, prompt included, that the options allow after a prompt of this length.
std::int64_t resolved_max_length(const GenerationOptions& options, std::int64_t prompt_length);

}  // namespace heed
