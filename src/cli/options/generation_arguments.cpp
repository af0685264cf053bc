// Generation options on the command line.
#include "cli/options/generation_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string_view>
#include <type_traits>

#include "cli/options/option_group.h"
#include "cli/terminal/terminal.h"
#include "heed/error.h"
#include "heed/text/tokenizer.h"

namespace heed::cli {
namespace {

using generate::OptionField;
using Ids = std::vector<std::int64_t>;

std::string flag_of(const char* name) {
  std::string flag = std::string("--") + name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

template <class T>
constexpr bool is_list = false;
template <class T>
constexpr bool is_list<std::vector<T>> = true;

// The form of a value of each type in the help and in messages. It is read by the function `read` below it.
const char* form(std::int64_t) { return "N"; }
const char* form(double) { return "X"; }
const char* form(EarlyStopping) { return "true|false|never"; }
const char* form(CacheDType) { return "f32|bf16|f16|int8"; }
const char* form(const Ids&) { return "IDS"; }
const char* form(const std::vector<Ids>&) { return "IDS"; }
const char* form(const std::vector<SequenceBias>&) { return "IDS:X"; }
const char* form(const std::pair<std::int64_t, double>&) { return "START,FACTOR"; }
template <class T>
const char* form(const std::optional<T>&) {
  return form(T());
}

// Reads a value, or adds it to a list. Returns what is expected if `text` is something else.
const char* read(const std::string& text, std::int64_t& value) {
  return parse_number(text, value) ? nullptr : "a whole number";
}
const char* read(const std::string& text, double& value) {
  return parse_number(text, value) && std::isfinite(value) ? nullptr : "a number";
}
const char* read(const std::string& text, EarlyStopping& value) {
  if (text == "true") return value = EarlyStopping::yes, nullptr;
  if (text == "false") return value = EarlyStopping::no, nullptr;
  if (text == "never") return value = EarlyStopping::never, nullptr;
  return "true, false or never";
}
const char* read(const std::string& text, CacheDType& value) {
  const auto dtype = cache_dtype_from_name(text);
  if (dtype) value = *dtype;
  return dtype ? nullptr : kCacheDTypeNames;
}
const char* read(const std::string& text, Ids& ids) {
  return append_ids(text, ids) ? nullptr : "whole numbers separated by commas";
}
const char* read(const std::string& text, std::vector<Ids>& lists) {
  return read(text, lists.emplace_back());
}
const char* read(const std::string& text, std::vector<SequenceBias>& biases) {
  SequenceBias& bias = biases.emplace_back();
  const std::size_t colon = std::min(text.find(':'), text.size());
  const bool valid = colon < text.size() && read(text.substr(0, colon), bias.ids) == nullptr &&
                     read(text.substr(colon + 1), bias.bias) == nullptr;
  return valid ? nullptr : "IDS:NUMBER";
}
const char* read(const std::string& text, std::pair<std::int64_t, double>& value) {
  const std::size_t comma = std::min(text.find(','), text.size());
  const bool valid = comma < text.size() && read(text.substr(0, comma), value.first) == nullptr &&
                     read(text.substr(comma + 1), value.second) == nullptr;
  return valid ? nullptr : "START,FACTOR";
}
template <class T>
const char* read(const std::string& text, std::optional<T>& value) {
  return read(text, value.emplace());
}

// Calls `check`, with a library's message changed to the option's name as on the command line.
template <class Check>
void check_use(const Check& check) {
  try {
    check();
  } catch (const Error& error) {
    constexpr std::string_view kWhere = "generation options: ";
    const std::string message = error.what();
    if (message.rfind(kWhere, 0) != 0) throw;
    const std::size_t colon = message.find(':', kWhere.size());
    throw UsageError(flag_of(message.substr(kWhere.size(), colon - kWhere.size()).c_str()) +
                     message.substr(colon));
  }
}

void warn_of_idle_options(const std::vector<const OptionField*>& given, const GenerationOptions& options,
                          const Globals& globals) {
  const auto warn_without = [](const char* name, const char* needed) {
    warn(flag_of(name) + " has no effect without " + needed);
  };
  if (globals.seed && !options.do_sample) warn_without("seed", "--do-sample");
  for (const OptionField* field : given) {
    if (field->needs == generate::OptionNeeds::sampling && !options.do_sample)
      warn_without(field->name, "--do-sample");
    if (field->needs == generate::OptionNeeds::beams && options.num_beams == 1)
      warn_without(field->name, "--num-beams above 1");
  }
}

}  // namespace

void GenerationArguments::add_to(CLI::App& command, const std::string& longest,
                                 const std::vector<std::string_view>& without) {
  for (const OptionField& field : generate::option_fields()) {
    if (field.help == nullptr || std::find(without.begin(), without.end(), field.name) != without.end())
      continue;
    std::string help = field.help;
    if (field.name == std::string_view("max_new_tokens"))
      help += " (default: the limit of generation_config.json, else " + longest + ")";
    const std::string flag = flag_of(field.name), group = std::string("Generation: ") + field.group;
    const auto add = [&, this]<class T>(T GenerationOptions::*member) {
      if constexpr (std::is_same_v<T, bool>) {
        command
            .add_flag_function(
                flag + ",!--no-" + flag.substr(2),
                [this, &field, member](std::int64_t count) {
                  values_.*member = count > 0;
                  given_.push_back(&field);
                },
                help)
            ->group(group);
      } else {
        CLI::Option* option = command.add_option(
            flag,
            [this, &field, member, flag](const std::vector<std::string>& texts) {
              for (const std::string& text : texts) {
                const char* expected = read(text, values_.*member);
                if (expected != nullptr) throw UsageError(flag + ": expected " + expected + ", got " + text);
              }
              check_use([&] { generate::check_field(field, values_); });
              given_.push_back(&field);
              return true;
            },
            help);
        option->type_name(form(T()))->group(group);
        if (is_list<T>) option->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args(false);
      }
    };
    std::visit(add, field.member);
  }
}

bool GenerationArguments::has(std::string_view name) const {
  return std::any_of(given_.begin(), given_.end(),
                     [&](const OptionField* field) { return field->name == name; });
}

GenerationOptions GenerationArguments::load(const std::filesystem::path& directory, const Globals& globals,
                                            const std::string& task, std::string* prefix) const {
  std::vector<std::string> unused;
  GenerationOptions options = load_generation_options(directory, &unused);
  if (!globals.quiet) {
    for (const std::string& key : unused)
      warn((directory / "generation_config.json").string() + ": " + key + " is not supported and ignored");
  }
  if (!task.empty()) {
    const std::string of_task = apply_task(directory, task, options);
    if (prefix != nullptr) *prefix = of_task;
  }
  override(options);
  check_use([&] { check_generation_options(options); });
  if (!globals.quiet) warn_of_idle_options(given_, options, globals);
  if (options.do_sample) options.seed = chosen_seed(globals);
  return options;
}

void GenerationArguments::override(GenerationOptions& options) const {
  // A length on the command line replaces the model's, whether or not either includes the prompt.
  if (has("max_new_tokens") || has("max_length")) options.max_new_tokens.reset(), options.max_length.reset();
  if (has("min_new_tokens") || has("min_length")) options.min_new_tokens.reset(), options.min_length = 0;
  for (const OptionField* field : given_)
    std::visit([&](auto member) { options.*member = values_.*member; }, field->member);
}

std::uint64_t chosen_seed(const Globals& globals) {
  const std::uint64_t seed = globals.seed ? *globals.seed : std::random_device()();
  if (globals.verbose) print_stderr(fmt::format("seed {}", seed));
  return seed;
}

void check_tokens(const GenerationArguments& given, const GenerationOptions& options, std::int64_t vocab_size,
                  const std::filesystem::path& directory, bool quiet) {
  // Token ids outside the vocabulary never occur. In a model's files (small models keep those of larger ones)
  // they cause a warning; on the command line, an error.
  for (const OptionField& field : generate::option_fields()) {
    const auto* member = std::get_if<Ids GenerationOptions::*>(&field.member);
    if (member == nullptr || field.range.ids != generate::OptionRange::Ids::any) continue;
    for (const std::int64_t id : options.**member) {
      if (id < vocab_size) continue;
      if (given.has(field.name)) {
        throw UsageError(fmt::format("{}: expected token ids below the vocabulary's size {}, got {}",
                                     flag_of(field.name), vocab_size, id));
      }
      if (quiet) continue;
      warn(fmt::format("{}: {} {} is outside the vocabulary of {} tokens and ignored", directory.string(),
                       field.name, id, vocab_size));
    }
  }
  try {
    check_use([&] { check_generation_options(options, vocab_size); });
  } catch (const UsageError&) {
    const auto file = directory / "generation_config.json";
    if (!std::filesystem::exists(file)) throw;
    try {
      check_generation_options(load_generation_options(directory), vocab_size);
    } catch (const Error& error) {
      throw Error(file.string() + ": " + error.what());
    }
    throw;
  }
}

void add_language_options(CLI::App& command, LanguageChoice& choice) {
  OptionGroup input(command, "Input");
  input.value("--source-language", choice.source, "CODE",
              "Language of the texts, as the model spells it: fr (M2M100), fra_Latn (NLLB), fr_XX (mBART)");
  input.value("--target-language", choice.target, "CODE", "Language to translate into, spelled likewise");
}

void choose_languages(const LanguageChoice& choice, const GenerationArguments& given, LoadedModel& model,
                      GenerationOptions& generation) {
  const auto choose = [&](const char* option, const std::optional<std::string>& name, bool source) {
    if (!name) return;
    if (model.tokenizer().languages() == nullptr)
      throw Error(fmt::format(
          "{}: expected a model of several languages (mBART, M2M100, NLLB) for {}, got one without languages",
          model.directory(), option));
    try {
      model.set_languages(source ? name : std::nullopt, source ? std::nullopt : name);
    } catch (const Error& error) {
      constexpr std::string_view kWhere = "language";
      throw UsageError(fmt::format("{}{}", option, std::string_view(error.what()).substr(kWhere.size())));
    }
  };
  choose("--source-language", choice.source, true);
  choose("--target-language", choice.target, false);
  const Languages* languages = model.tokenizer().languages();
  if (languages == nullptr || !languages->target) return;
  const bool starts = languages->starts_decoder;
  std::optional<std::int64_t>& token =
      starts ? generation.decoder_start_token_id : generation.forced_bos_token_id;
  if (choice.target && given.has(starts ? "decoder_start_token_id" : "forced_bos_token_id"))
    throw UsageError(fmt::format("--target-language: cannot be combined with {} (both name the language)",
                                 starts ? "--decoder-start-token-id" : "--forced-bos-token-id"));
  if (choice.target || !token) token = languages->target->id;
}

}  // namespace heed::cli
