// Generation options on the command line.
#include "cli/generation_arguments.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "cli/cli.h"
#include "cli/option_values.h"
#include "cli/terminal.h"

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

// The library's message, its option spelt as on the command line.
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
  const char* group = "Generation";
  command.add_option("--max-new-tokens", max_new_tokens, "Longest output, in tokens")
      ->transform(whole_number(1))
      ->group(group);
  command.add_option("--min-new-tokens", min_new_tokens, "Shortest output, in tokens")
      ->transform(whole_number(0))
      ->group(group);
  command.add_option("--max-length", max_length, "The same, the start token counted")
      ->transform(whole_number(2))
      ->group(group);
  command.add_option("--min-length", min_length, "The same, the start token counted")
      ->transform(whole_number(0))
      ->group(group);
  command.add_option("--num-beams", num_beams, "Beams of the search; 1 is greedy")
      ->transform(whole_number(1))
      ->group(group);
  command.add_option("--num-return-sequences", num_return_sequences, "Best results to give")
      ->transform(whole_number(1))
      ->group(group);
  command.add_option("--length-penalty", length_penalty, "Exponent of the length a score is divided by")
      ->check(finite_number())
      ->group(group);
  command.add_option("--early-stopping", early_stopping, "true, false or never")->group(group);
  command.add_option("--no-repeat-ngram-size", no_repeat_ngram_size, "No run of so many tokens twice")
      ->transform(whole_number(0))
      ->group(group);
  command
      .add_option("--encoder-no-repeat-ngram-size", encoder_no_repeat_ngram_size,
                  "No run of so many tokens that the source has (of a decoder, the prompt)")
      ->transform(whole_number(0))
      ->group(group);
  command.add_option("--repetition-penalty", repetition_penalty, "Above 1: against tokens already there")
      ->check(finite_number())
      ->group(group);
  command
      .add_option("--encoder-repetition-penalty", encoder_repetition_penalty,
                  "Above 1: for tokens that the source has (of a decoder, the prompt)")
      ->check(finite_number())
      ->group(group);
  command.add_option("--bad-words-ids", bad_words_ids, "Ids never to say, e.g. 5,6 (repeatable)")
      ->allow_extra_args(false)
      ->group(group);
  command.add_option("--suppress-tokens", suppress_tokens, "Single ids never to say, e.g. 5,6")
      ->allow_extra_args(false)
      ->group(group);
  command.add_option("--begin-suppress-tokens", begin_suppress_tokens, "Ids not to begin with, e.g. 5,6")
      ->allow_extra_args(false)
      ->group(group);
  command
      .add_option("--sequence-bias", sequence_bias,
                  "Ids and what to add to their score: 5,6:-2.5 (repeatable)")
      ->allow_extra_args(false)
      ->group(group);
  command
      .add_option("--exponential-decay-length-penalty", exponential_decay_length_penalty,
                  "START,FACTOR: after START new tokens the end's score grows by FACTOR a token")
      ->group(group);
  command.add_flag("--renormalize-logits", renormalize_logits, "Log-softmax after all other processing")
      ->group(group);
  command
      .add_flag("--remove-invalid-values", remove_invalid_values,
                "Scores that are no numbers become 0, infinite ones the largest numbers")
      ->group(group);
  command.add_option("--eos-token-id", eos_token_id, "Ids that end the output, e.g. 0,3")
      ->allow_extra_args(false)
      ->group(group);
  command.add_option("--forced-bos-token-id", forced_bos_token_id, "Id of the first token")
      ->transform(whole_number(0))
      ->group(group);
  command.add_option("--forced-eos-token-id", forced_eos_token_id, "Ids of the last possible token")
      ->allow_extra_args(false)
      ->group(group);
  command.add_option("--pad-token-id", pad_token_id, "Id that fills rows up")
      ->transform(whole_number(0))
      ->group(group);
  command.add_option("--decoder-start-token-id", decoder_start_token_id, "Id the decoder starts from")
      ->transform(whole_number(0))
      ->group(group);
  command.add_flag("--do-sample,!--no-do-sample", do_sample, "Draw tokens at random (see --seed), or not")
      ->group(group);
  command.add_option("--temperature", temperature, "Below 1: less random")
      ->check(finite_number())
      ->group(group);
  command.add_option("--top-k", top_k, "Draw among so many best tokens; 0: all")
      ->transform(whole_number(0))
      ->group(group);
  command.add_option("--top-p", top_p, "Draw among the best tokens of so much probability")
      ->check(finite_number())
      ->group(group);
  command.add_option("--top-h", top_h, "Draw among the best tokens of so much of the entropy")
      ->check(finite_number())
      ->group(group);
  command.add_option("--min-p", min_p, "Draw among tokens so likely against the best")
      ->check(finite_number())
      ->group(group);
  command
      .add_option("--typical-p", typical_p,
                  "Draw among the tokens of typical surprise, of so much probability")
      ->check(finite_number())
      ->group(group);
  command.add_option("--epsilon-cutoff", epsilon_cutoff, "Draw among tokens at least so likely")
      ->check(finite_number())
      ->group(group);
  command.add_option("--eta-cutoff", eta_cutoff, "The same, less strict where many tokens are likely")
      ->check(finite_number())
      ->group(group);
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

void GenerationArguments::apply_to(GenerationOptions& o) const {
  // A length on the command line replaces the model's, whichever way either counts.
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
}

void check_tokens(const GenerationArguments& given, const GenerationOptions& options, std::int64_t vocab_size,
                  const std::filesystem::path& directory, bool quiet) {
  // What a list names beyond the vocabulary is never met: of a model's files, which models made small keep
  // from larger ones, that is said; of the command line it is a mistake.
  struct List {
    const char* name;
    const std::vector<std::int64_t>& ids;
    const std::vector<std::string>& given;
    const char* does;
  };
  for (const List& list :
       {List{"eos_token_id", options.eos_token_id, given.eos_token_id, "ends"},
        List{"suppress_tokens", options.suppress_tokens, given.suppress_tokens, "suppresses"},
        List{"begin_suppress_tokens", options.begin_suppress_tokens, given.begin_suppress_tokens,
             "suppresses"}}) {
    for (const std::int64_t id : list.ids) {
      if (id < vocab_size) continue;
      if (!list.given.empty()) {
        std::string flag = list.name;
        std::replace(flag.begin(), flag.end(), '_', '-');
        throw UsageError(fmt::format("--{}: expected token ids below the vocabulary's size {}, got {}", flag,
                                     vocab_size, id));
      }
      if (quiet) continue;
      warn(fmt::format("{}: {} {} is outside the vocabulary of {} tokens and {} nothing", directory.string(),
                       list.name, id, vocab_size, list.does));
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
