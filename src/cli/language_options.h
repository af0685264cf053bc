// The options that choose the languages of a model that translates between several.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "cli/cli.h"
#include "cli/generation_arguments.h"
#include "heed/text/tokenizer.h"

namespace heed::cli {

struct LanguageChoice {
  std::optional<std::string> source, target;
  /// The first option that is given, or null.
  const char* given() const { return source ? "--source-language" : target ? "--target-language" : nullptr; }
};

/// --source-language and --target-language.
void add_language_options(CLI::App& command, LanguageChoice& choice);

/// Applies the choice, and the target that tokenizer_config.json records, to the tokenizer and to the token
/// that generation starts with. `given` are the generation options of the command line. Throws Error for a
/// model without languages, UsageError for an unknown one and for an option that also names the target.
void choose_languages(const LanguageChoice& choice, const GenerationArguments& given,
                      const std::filesystem::path& directory, Tokenizer& tokenizer,
                      GenerationOptions& generation);

}  // namespace heed::cli
