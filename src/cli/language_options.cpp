// Adds and applies the options of languages.
#include "cli/language_options.h"

#include <fmt/format.h>

#include <string_view>

#include "heed/error.h"

namespace heed::cli {

void add_language_options(CLI::App& command, LanguageChoice& choice) {
  command
      .add_option(
          "--source-language", choice.source,
          "Language of the texts, as the model spells it: fr (M2M100), fra_Latn (NLLB), fr_XX (mBART)")
      ->type_name("CODE")
      ->group("Input");
  command.add_option("--target-language", choice.target, "Language to translate into, spelt likewise")
      ->type_name("CODE")
      ->group("Input");
}

void choose_languages(const LanguageChoice& choice, const GenerationArguments& given,
                      const std::filesystem::path& directory, Tokenizer& tokenizer,
                      GenerationOptions& generation) {
  const Languages* languages = tokenizer.languages();
  const auto choose = [&](const char* option, const std::optional<std::string>& name, bool source) {
    if (!name) return;
    if (languages == nullptr)
      throw Error(fmt::format(
          "{}: expected a model of several languages (mBART, M2M100, NLLB) for {}, got one without languages",
          directory.string(), option));
    try {
      tokenizer.set_languages(source ? name : std::nullopt, source ? std::nullopt : name);
    } catch (const Error& error) {
      constexpr std::string_view kWhere = "language";
      throw UsageError(fmt::format("{}{}", option, std::string_view(error.what()).substr(kWhere.size())));
    }
  };
  choose("--source-language", choice.source, true);
  choose("--target-language", choice.target, false);
  if (languages == nullptr || !languages->target) return;
  const bool starts = languages->starts_decoder;
  std::optional<std::int64_t>& token =
      starts ? generation.decoder_start_token_id : generation.forced_bos_token_id;
  if (choice.target && (starts ? given.decoder_start_token_id : given.forced_bos_token_id))
    throw UsageError(fmt::format("--target-language: cannot be combined with {} (both name the language)",
                                 starts ? "--decoder-start-token-id" : "--forced-bos-token-id"));
  if (choice.target || !token) token = languages->target->id;
}

}  // namespace heed::cli
