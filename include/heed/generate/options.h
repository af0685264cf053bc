// Generation options, with the names and meanings of Hugging Face transformers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heed/export.h"
#include "heed/nn/cache_dtype.h"

namespace HEED_API heed {

class ModelFiles;

/// When beam search stops although running beams could still improve the result.
enum class EarlyStopping : std::uint8_t {
  no,     ///< when the best running beam, at its current length, scores below the worst finished one
  yes,    ///< as soon as num_beams hypotheses are finished
  never,  ///< when no running beam can exceed the worst finished one at any length
};

/// Adds `bias` to the score of the last id of `ids` if the preceding tokens are the other ids.
struct SequenceBias {
  std::vector<std::int64_t> ids;
  double bias = 0;
};

struct GenerationOptions {
  // Lengths. `max_length` and `min_length` include the prompt (and a decoder's start token); the `new_tokens`
  // options take precedence. Without a maximum, 20 new tokens are generated, or fewer if the trained
  // positions end earlier.
  std::optional<std::int64_t> max_new_tokens = {};
  std::optional<std::int64_t> max_length = {};
  std::optional<std::int64_t> min_new_tokens = {};
  std::int64_t min_length = 0;
  /// Of an encoder-decoder: translate() treats longer sources as those longer than the model's positions.
  /// heed's own option, which training with data.max_source sets.
  std::optional<std::int64_t> max_source_length = {};

  // Beam search.
  std::int64_t num_beams = 1;
  std::int64_t num_return_sequences = 1;
  double length_penalty = 1.0;  ///< a hypothesis scores sum of log-probabilities / length^length_penalty
  EarlyStopping early_stopping = EarlyStopping::no;

  // Allowed and preferred tokens; src/generate/processors.h has the formulas and the order.
  double repetition_penalty = 1.0;
  double encoder_repetition_penalty = 1.0;  ///< > 1 favors tokens of the source (of a decoder: the prompt)
  std::int64_t no_repeat_ngram_size = 0;
  std::int64_t encoder_no_repeat_ngram_size = 0;
  std::vector<SequenceBias> sequence_bias = {};
  /// {start, factor}: after `start` new tokens, the score of the end token grows by `factor` per token.
  std::optional<std::pair<std::int64_t, double>> exponential_decay_length_penalty = {};
  std::vector<std::vector<std::int64_t>> bad_words_ids = {};
  std::vector<std::int64_t> suppress_tokens = {};
  std::vector<std::int64_t> begin_suppress_tokens = {};
  bool renormalize_logits = false;
  bool remove_invalid_values = false;  ///< NaN scores become 0, infinite ones the largest finite numbers

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

  /// The dtype of cached keys and values; no effect on a model without attention. heed's own option.
  CacheDType cache_dtype = CacheDType::f32;
};

/// Reads generation_config.json from a model's directory, or, if there is none, the generation options that
/// older models have in config.json. Adds to `unused`, if given, the keys of generation_config.json that are
/// unknown or request an unsupported feature. Throws Error if the file is malformed, or a value has the wrong
/// type or is out of range.
GenerationOptions load_generation_options(const std::string& directory,
                                          std::vector<std::string>* unused = nullptr);
GenerationOptions load_generation_options(const ModelFiles& model,
                                          std::vector<std::string>* unused = nullptr);

/// Overrides the options by config.json's `task_specific_params` for a task (`summarization`,
/// `translation_en_to_de`). Returns the prefix that the task puts before every text. Throws Error if there is
/// no such task.
std::string apply_task(const std::string& directory, const std::string& task, GenerationOptions& options);
std::string apply_task(const ModelFiles& model, const std::string& task, GenerationOptions& options);

/// Throws Error naming the first option that is out of range, contradicts another, or (except eos_token_id)
/// contains a token id outside a vocabulary of `vocab_size`, if given.
void check_generation_options(const GenerationOptions& options, std::optional<std::int64_t> vocab_size = {});

/// Returns the maximum length of a sequence, including the prompt, after a prompt of this length.
std::int64_t resolved_max_length(const GenerationOptions& options, std::int64_t prompt_length);

}  // namespace heed
