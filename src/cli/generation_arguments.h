// The generation options of the command line, under Hugging Face's names. They override those of the model.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "heed/generate/options.h"

namespace heed::cli {

struct GenerationArguments {
  std::optional<std::int64_t> max_new_tokens, max_length, min_new_tokens, min_length, num_beams,
      num_return_sequences, no_repeat_ngram_size, encoder_no_repeat_ngram_size, top_k;
  std::optional<double> length_penalty, repetition_penalty, encoder_repetition_penalty, temperature, top_p,
      top_h, min_p, typical_p, epsilon_cutoff, eta_cutoff;
  std::optional<std::int64_t> forced_bos_token_id, pad_token_id, decoder_start_token_id;
  std::string early_stopping;
  std::string exponential_decay_length_penalty;
  std::vector<std::string> eos_token_id, forced_eos_token_id, bad_words_ids, suppress_tokens,
      begin_suppress_tokens, sequence_bias;
  std::optional<bool> do_sample;
  bool renormalize_logits = false, remove_invalid_values = false;

  void add_to(CLI::App& command);
  /// Returns the options of the model's generation_config.json, overridden by those of `task` (see
  /// apply_task) and by those of the command line, and the seed. Sets `prefix` to the task's. Warns of
  /// settings that are not supported or have no effect. Throws UsageError for options that are malformed, out
  /// of range or contradictory.
  GenerationOptions load(const std::filesystem::path& directory, const Globals& globals,
                         const std::string& task = "", std::string* prefix = nullptr) const;

 private:
  void apply_to(GenerationOptions& options, const Globals& globals) const;

  const CLI::App* command_ = nullptr;
};

/// For the end of the commands' help texts.
inline constexpr const char* kGenerationNote =
    "Generation options replace those of the model's generation_config.json.\n\n";

/// For sampling, sets the seed to that of --seed, or to a new one, which --verbose reports.
void choose_seed(GenerationOptions& options, const Globals& globals);

/// Throws UsageError if token ids of the command line are outside the vocabulary, and Error for those of the
/// model's generation_config.json. In the latter, end and suppressed token ids outside the vocabulary are
/// ignored, as in transformers, with a warning unless `quiet`.
void check_tokens(const GenerationArguments& given, const GenerationOptions& options, std::int64_t vocab_size,
                  const std::filesystem::path& directory, bool quiet);

}  // namespace heed::cli
