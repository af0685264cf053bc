// The generation options of the command line, under Hugging Face's names. They override those of the model.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cli.h"
#include "generate/option_fields.h"
#include "heed/open/loaded_model.h"

namespace heed::cli {

class GenerationArguments {
 public:
  /// Adds an option for each field of generate::option_fields() that has a help text, but for those named in
  /// `without`. `longest`: how many new tokens there are if neither the command line nor the model's
  /// generation_config.json says.
  void add_to(CLI::App& command, const std::string& longest,
              const std::vector<std::string_view>& without = {});
  /// Returns true if the command line has the option of that name, such as eos_token_id.
  bool has(std::string_view name) const;
  /// Returns --cache-dtype, of the command line alone.
  CacheDType cache_dtype() const { return values_.cache_dtype; }
  /// Returns the options of the model's generation_config.json, overridden by those of `task` (see
  /// apply_task) and by those of the command line, and the seed. Sets `prefix` to the task's. Warns of
  /// settings that are not supported or have no effect. Throws UsageError for options that are out of range
  /// or contradictory.
  GenerationOptions load(const std::filesystem::path& directory, const Globals& globals,
                         const std::string& task = "", std::string* prefix = nullptr) const;

 private:
  void override(GenerationOptions& options) const;

  GenerationOptions values_;
  std::vector<const generate::OptionField*> given_;
};

/// Of an encoder-decoder's texts, as `longest`.
inline constexpr const char* kLongestTarget = "as many as the model has positions, or 512";

/// For the end of the commands' help texts.
inline constexpr const char* kGenerationNote =
    "Generation options replace those of the model's generation_config.json.\n\n";

/// For sampling: the seed of --seed, or a new one, which --verbose reports.
std::uint64_t chosen_seed(const Globals& globals);

/// Throws UsageError if token ids of the command line are outside the vocabulary, and Error for those of the
/// model's generation_config.json. In the latter, end and suppressed token ids outside the vocabulary are
/// ignored, as in transformers, with a warning unless `quiet`.
void check_tokens(const GenerationArguments& given, const GenerationOptions& options, std::int64_t vocab_size,
                  const std::filesystem::path& directory, bool quiet);

/// The languages of a model that translates between several.
struct LanguageChoice {
  std::optional<std::string> source, target;
  /// The first option that is given, or null.
  const char* given() const { return source ? "--source-language" : target ? "--target-language" : nullptr; }
};

/// --source-language and --target-language.
void add_language_options(CLI::App& command, LanguageChoice& choice);

/// Applies the choice, and the target that tokenizer_config.json records, to the model and to the token
/// that generation starts with. `given` are the generation options of the command line. Throws Error for a
/// model without languages, UsageError for an unknown one and for an option that also names the target.
void choose_languages(const LanguageChoice& choice, const GenerationArguments& given, LoadedModel& model,
                      GenerationOptions& generation);

}  // namespace heed::cli
