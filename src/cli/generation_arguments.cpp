// Generation options on the command line.
#include "cli/generation_arguments.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "cli/cli.h"
#include "cli/option_values.h"
#include "cli/terminal.h"
#include "cli/unused_options.h"

namespace heed::cli {
namespace {

template <class T, class U>
void overlay(T& option, const std::optional<U>& given) {
  if (given) option = *given;
}

std::vector<std::int64_t> all_ids(const std::vector<std::string>& lists, const char* option) {
  std::vector<std::int64_t> ids;
  for (const std::string& list : lists) {
    const std::vector<std::int64_t> more = parse_ids(list, option);
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

EarlyStopping early_stopping_named(const std::string& name) {
  if (name == "true") return EarlyStopping::yes;
  if (name == "false") return EarlyStopping::no;
  if (name == "never") return EarlyStopping::never;
  throw UsageError("--early-stopping: expected true, false or never, got " + name);
}

// Checks the options, with the library's message and the option's name as on the command line.
void check_use(const GenerationOptions& options, std::optional<std::int64_t> vocab_size) {
  try {
    check_generation_options(options, vocab_size);
  } catch (const Error& error) {
    constexpr std::string_view kWhere = "generation options: ";
    std::string message = error.what();
    if (message.rfind(kWhere, 0) != 0) throw;
    message.replace(0, kWhere.size(), "--");
    std::replace(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(message.find(':')), '_', '-');
    throw UsageError(message);
  }
}

}  // namespace

void GenerationArguments::add_to(CLI::App& command) {
  const char* group = nullptr;
  const auto count = [&](const char* name, auto& value, const char* text, std::int64_t least = 0) {
    command.add_option(name, value, text)->transform(whole_number(least))->type_name("N")->group(group);
  };
  const auto number = [&](const char* name, auto& value, const char* text) {
    command.add_option(name, value, text)->check(finite_number())->type_name("X")->group(group);
  };
  const auto ids = [&](const char* name, auto& value, const char* text, const char* form = "IDS") {
    command.add_option(name, value, text)->allow_extra_args(false)->type_name(form)->group(group);
  };
  const auto flag = [&](const char* name, auto& value, const char* text) {
    command.add_flag(name, value, text)->group(group);
  };
  command_ = &command;

  group = "Generation: lengths";
  count("--max-new-tokens", max_new_tokens,
        "Largest number of tokens to generate (default: the limit of generation_config.json, else 20)", 1);
  count("--min-new-tokens", min_new_tokens, "Smallest number of tokens to generate");
  count("--max-length", max_length,
        "Largest length of the whole sequence: prompt (or decoder start token) and new tokens", 2);
  count("--min-length", min_length, "Smallest length of the whole sequence");
  command
      .add_option("--exponential-decay-length-penalty", exponential_decay_length_penalty,
                  "After START new tokens, raise the end token's score by FACTOR with every token")
      ->type_name("START,FACTOR")
      ->group(group);

  group = "Generation: search";
  count("--num-beams", num_beams,
        "Number of beams; 1 is greedy search (default: that of generation_config.json, else 1)", 1);
  count("--num-return-sequences", num_return_sequences, "Number of sequences to return for each input", 1);
  number("--length-penalty", length_penalty,
         "Beam scores are divided by the length to this power: above 0 favours long sequences");
  command
      .add_option("--early-stopping", early_stopping,
                  "When beam search stops: true, once there are as many finished sequences as beams; false, "
                  "when better ones are unlikely; never, when better ones are impossible")
      ->type_name("true|false|never")
      ->group(group);

  group = "Generation: sampling";
  // add_flag would set the value to false if neither is given, and so override the model's files.
  command
      .add_flag_function(
          "--do-sample,!--no-do-sample", [this](std::int64_t count) { do_sample = count > 0; },
          "Sample tokens instead of taking the likeliest, or do not")
      ->group(group);
  number("--temperature", temperature, "Divide the logits by this: below 1 is less random, above 1 more");
  count("--top-k", top_k, "Sample from the N likeliest tokens; 0 for all");
  number("--top-p", top_p, "Sample from the likeliest tokens with a total probability of X (nucleus)");
  number("--top-h", top_h, "Sample from the likeliest tokens with at most X of the distribution's entropy");
  number("--min-p", min_p, "Sample from tokens at least X times as likely as the likeliest");
  number("--typical-p", typical_p, "Locally typical sampling, with a total probability of X");
  number("--epsilon-cutoff", epsilon_cutoff, "Sample from tokens of probability at least X");
  number("--eta-cutoff", eta_cutoff, "Eta sampling: a cutoff that adapts to the distribution's entropy");

  group = "Generation: constraints";
  count("--no-repeat-ngram-size", no_repeat_ngram_size,
        "Never repeat an n-gram of this size; 0 for no limit");
  count("--encoder-no-repeat-ngram-size", encoder_no_repeat_ngram_size,
        "Never repeat an n-gram of this size from the source (for a decoder, the prompt)");
  number("--repetition-penalty", repetition_penalty, "Repetition penalty (> 1 discourages repeats)");
  number("--encoder-repetition-penalty", encoder_repetition_penalty,
         "Penalty for tokens that are not in the source (for a decoder, the prompt): > 1 favours its tokens");
  ids("--bad-words-ids", bad_words_ids, "A sequence of token ids that must not be generated, e.g. 5,6");
  ids("--suppress-tokens", suppress_tokens, "Token ids that must not be generated, e.g. 5,6");
  ids("--begin-suppress-tokens", begin_suppress_tokens,
      "Token ids that must not be generated first, e.g. 5,6");
  ids("--sequence-bias", sequence_bias,
      "Bias added to the score of the last of these token ids after the others, e.g. 5,6:-2.5", "IDS:X");
  count("--forced-bos-token-id", forced_bos_token_id, "Token id that must be generated first");
  ids("--forced-eos-token-id", forced_eos_token_id,
      "Token ids one of which must be generated last when the largest length is reached");
  flag("--renormalize-logits", renormalize_logits, "Apply log-softmax after all other processing of scores");
  flag("--remove-invalid-values", remove_invalid_values,
       "Replace NaN scores by 0 and infinite ones by the largest finite numbers");

  group = "Generation: special tokens";
  ids("--eos-token-id", eos_token_id, "Token ids that end a sequence, e.g. 0,3");
  count("--pad-token-id", pad_token_id, "Token id of padding");
  count("--decoder-start-token-id", decoder_start_token_id, "Token id the decoder starts from");
}

namespace {

double number_in(const std::string& text, const char* option, const char* form) {
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::logic_error&) {
    used = std::string::npos;
  }
  if (used != text.size() || !std::isfinite(value))
    throw UsageError(std::string(option) + ": expected " + form + ", got \"" + text + "\"");
  return value;
}

SequenceBias sequence_bias_of(const std::string& text) {
  constexpr const char *kOption = "--sequence-bias", *kForm = "IDS:NUMBER";
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos)
    throw UsageError(std::string(kOption) + ": expected " + kForm + ", got \"" + text + "\"");
  return {parse_ids(text.substr(0, colon), kOption), number_in(text.substr(colon + 1), kOption, kForm)};
}

std::pair<std::int64_t, double> decay_of(const std::string& text) {
  constexpr const char *kOption = "--exponential-decay-length-penalty", *kForm = "START,FACTOR";
  const std::size_t comma = std::min(text.find(','), text.size());
  const std::vector<std::int64_t> start = parse_ids(text.substr(0, comma), kOption);
  return {start.front(), number_in(text.substr(std::min(comma + 1, text.size())), kOption, kForm)};
}

}  // namespace

void choose_seed(GenerationOptions& options, const Globals& globals) {
  if (!options.do_sample) return;
  options.seed = globals.seed ? *globals.seed : std::random_device()();
  if (globals.verbose) print_stderr(fmt::format("seed {}", options.seed));
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
  apply_to(options, globals);
  return options;
}

void GenerationArguments::apply_to(GenerationOptions& o, const Globals& globals) const {
  // A length on the command line replaces the model's, whether or not either includes the prompt.
  if (max_new_tokens || max_length) o.max_new_tokens.reset(), o.max_length.reset();
  if (min_new_tokens || min_length) o.min_new_tokens.reset(), o.min_length = 0;
  overlay(o.max_new_tokens, max_new_tokens);
  overlay(o.max_length, max_length);
  overlay(o.min_new_tokens, min_new_tokens);
  overlay(o.min_length, min_length);
  overlay(o.num_beams, num_beams);
  overlay(o.num_return_sequences, num_return_sequences);
  overlay(o.no_repeat_ngram_size, no_repeat_ngram_size);
  overlay(o.length_penalty, length_penalty);
  overlay(o.repetition_penalty, repetition_penalty);
  overlay(o.encoder_repetition_penalty, encoder_repetition_penalty);
  overlay(o.temperature, temperature);
  overlay(o.top_k, top_k);
  overlay(o.top_p, top_p);
  overlay(o.top_h, top_h);
  overlay(o.min_p, min_p);
  overlay(o.typical_p, typical_p);
  overlay(o.epsilon_cutoff, epsilon_cutoff);
  overlay(o.eta_cutoff, eta_cutoff);
  overlay(o.encoder_no_repeat_ngram_size, encoder_no_repeat_ngram_size);
  overlay(o.forced_bos_token_id, forced_bos_token_id);
  overlay(o.pad_token_id, pad_token_id);
  overlay(o.decoder_start_token_id, decoder_start_token_id);
  if (!early_stopping.empty()) o.early_stopping = early_stopping_named(early_stopping);
  if (!eos_token_id.empty()) o.eos_token_id = all_ids(eos_token_id, "--eos-token-id");
  if (!forced_eos_token_id.empty())
    o.forced_eos_token_id = all_ids(forced_eos_token_id, "--forced-eos-token-id");
  if (!suppress_tokens.empty()) o.suppress_tokens = all_ids(suppress_tokens, "--suppress-tokens");
  if (!bad_words_ids.empty()) o.bad_words_ids.clear();
  for (const std::string& words : bad_words_ids)
    o.bad_words_ids.push_back(parse_ids(words, "--bad-words-ids"));
  if (!begin_suppress_tokens.empty())
    o.begin_suppress_tokens = all_ids(begin_suppress_tokens, "--begin-suppress-tokens");
  if (!sequence_bias.empty()) o.sequence_bias.clear();
  for (const std::string& bias : sequence_bias) o.sequence_bias.push_back(sequence_bias_of(bias));
  if (!exponential_decay_length_penalty.empty())
    o.exponential_decay_length_penalty = decay_of(exponential_decay_length_penalty);
  if (renormalize_logits) o.renormalize_logits = true;
  if (remove_invalid_values) o.remove_invalid_values = true;
  overlay(o.do_sample, do_sample);
  check_use(o, {});
  warn_of_idle_options(*command_, o, globals);
  choose_seed(o, globals);
}

void check_tokens(const GenerationArguments& given, const GenerationOptions& options, std::int64_t vocab_size,
                  const std::filesystem::path& directory, bool quiet) {
  // Token ids outside the vocabulary never occur. In a model's files (small models keep those of larger ones)
  // they cause a warning; on the command line, an error.
  struct List {
    const char* name;
    const std::vector<std::int64_t>& ids;
    const std::vector<std::string>& given;
  };
  for (const List& list :
       {List{"eos_token_id", options.eos_token_id, given.eos_token_id},
        List{"suppress_tokens", options.suppress_tokens, given.suppress_tokens},
        List{"begin_suppress_tokens", options.begin_suppress_tokens, given.begin_suppress_tokens}}) {
    for (const std::int64_t id : list.ids) {
      if (id < vocab_size) continue;
      if (!list.given.empty()) {
        std::string flag = list.name;
        std::replace(flag.begin(), flag.end(), '_', '-');
        throw UsageError(fmt::format("--{}: expected token ids below the vocabulary's size {}, got {}", flag,
                                     vocab_size, id));
      }
      if (quiet) continue;
      warn(fmt::format("{}: {} {} is outside the vocabulary of {} tokens and ignored", directory.string(),
                       list.name, id, vocab_size));
    }
  }
  try {
    check_use(options, vocab_size);
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

}  // namespace heed::cli
