// The list of generation options, and what is derived from it: the reader of generation_config.json and the
// checks.
#include "heed/generate/options.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "core/strings.h"
#include "generate/option_fields.h"
#include "heed/error.h"
#include "heed/io/json.h"
#include "heed/models/find_model.h"

namespace heed {
namespace generate {
namespace {

/// More beams than any practical search uses, but few enough that a typing error does not exhaust the memory.
constexpr double kMaxBeams = 1000;
// The same for sampled sequences.
constexpr double kMaxReturned = 10000;

using Ids = OptionRange::Ids;
using O = GenerationOptions;

constexpr OptionRange at_least(double min) { return {.min = min}; }
constexpr OptionRange from_to(double min, double max) { return {.min = min, .max = max}; }
constexpr OptionRange above(double min, const char* hint = "") {
  return {.min = min, .above_min = true, .hint = hint};
}
constexpr OptionRange kFinite{}, kProbability{.min = 0, .max = 1},
    kAboveZero{.min = 0, .max = 1, .above_min = true}, kBelowOne{.min = 0, .max = 1, .below_max = true},
    kKnownIds{.min = 0, .ids = Ids::known}, kAnyIds{.min = 0, .ids = Ids::any};

constexpr const char *kLengths = "lengths", *kSearch = "search", *kSampling = "sampling",
                     *kConstraints = "constraints", *kSpecial = "special tokens", *kMemory = "memory";

}  // namespace

// clang-format off
const std::vector<OptionField>& option_fields() {
  constexpr OptionNeeds sampling = OptionNeeds::sampling, beams = OptionNeeds::beams;
  static const std::vector<OptionField> fields{
      {"max_new_tokens", &O::max_new_tokens, at_least(1), kLengths,
       "Largest number of tokens to generate"},
      {"min_new_tokens", &O::min_new_tokens, at_least(0), kLengths, "Smallest number of tokens to generate"},
      {"max_length", &O::max_length, at_least(1), kLengths,
       "Largest length of the whole sequence: prompt (or decoder start token) and new tokens"},
      {"min_length", &O::min_length, at_least(0), kLengths, "Smallest length of the whole sequence"},
      {"exponential_decay_length_penalty", &O::exponential_decay_length_penalty, above(0), kLengths,
       "After START new tokens, raise the end token's score by FACTOR with every token"},
      {"num_beams", &O::num_beams, from_to(1, kMaxBeams), kSearch,
       "Number of beams; 1 is greedy search (default: that of generation_config.json, else 1)"},
      {"num_return_sequences", &O::num_return_sequences, from_to(1, kMaxReturned), kSearch,
       "Number of sequences to return for each input"},
      {"length_penalty", &O::length_penalty, kFinite, kSearch,
       "Beam scores are divided by the length to this power: above 0 favors long sequences", beams},
      {"early_stopping", &O::early_stopping, {}, kSearch,
       "When beam search stops: true, once there are as many finished sequences as beams; false, when better "
       "ones are unlikely; never, when better ones are impossible", beams},
      {"do_sample", &O::do_sample, {}, kSampling, "Sample tokens instead of taking the likeliest, or do not"},
      {"temperature", &O::temperature, above(0, " (for greedy search turn do_sample off: --no-do-sample)"), kSampling,
       "Divide the logits by this: below 1 is less random, above 1 more", sampling},
      {"top_k", &O::top_k, at_least(0), kSampling, "Sample from the N likeliest tokens; 0 for all", sampling},
      {"top_p", &O::top_p, kProbability, kSampling,
       "Sample from the likeliest tokens with a total probability of X (nucleus)", sampling},
      {"top_h", &O::top_h, kAboveZero, kSampling,
       "Sample from the likeliest tokens with at most X of the distribution's entropy", sampling},
      {"min_p", &O::min_p, kProbability, kSampling,
       "Sample from tokens at least X times as likely as the likeliest", sampling},
      {"typical_p", &O::typical_p, kAboveZero, kSampling,
       "Locally typical sampling, with a total probability of X", sampling},
      {"epsilon_cutoff", &O::epsilon_cutoff, kBelowOne, kSampling,
       "Sample from tokens of probability at least X", sampling},
      {"eta_cutoff", &O::eta_cutoff, kBelowOne, kSampling,
       "Eta sampling: a cutoff that adapts to the distribution's entropy", sampling},
      {"no_repeat_ngram_size", &O::no_repeat_ngram_size, at_least(0), kConstraints,
       "Never repeat an n-gram of this size; 0 for no limit"},
      {"encoder_no_repeat_ngram_size", &O::encoder_no_repeat_ngram_size, at_least(0), kConstraints,
       "Never repeat an n-gram of this size from the source (for a decoder, the prompt)"},
      {"repetition_penalty", &O::repetition_penalty, above(0), kConstraints,
       "Repetition penalty (> 1 discourages repeats)"},
      {"encoder_repetition_penalty", &O::encoder_repetition_penalty, above(0), kConstraints,
       "Penalty for tokens that are not in the source (for a decoder, the prompt): > 1 favors its tokens"},
      {"bad_words_ids", &O::bad_words_ids, kKnownIds, kConstraints,
       "A sequence of token ids that must not be generated, e.g. 5,6"},
      {"suppress_tokens", &O::suppress_tokens, kAnyIds, kConstraints,
       "Token ids that must not be generated, e.g. 5,6"},
      {"begin_suppress_tokens", &O::begin_suppress_tokens, kAnyIds, kConstraints,
       "Token ids that must not be generated first, e.g. 5,6"},
      {"sequence_bias", &O::sequence_bias, kKnownIds, kConstraints,
       "Bias added to the score of the last of these token ids after the others, e.g. 5,6:-2.5"},
      {"forced_bos_token_id", &O::forced_bos_token_id, kKnownIds, kConstraints,
       "Token id that must be generated first"},
      {"forced_eos_token_id", &O::forced_eos_token_id, kKnownIds, kConstraints,
       "Token ids one of which must be generated last when the largest length is reached"},
      {"renormalize_logits", &O::renormalize_logits, {}, kConstraints,
       "Apply log-softmax after all other processing of scores, or do not"},
      {"remove_invalid_values", &O::remove_invalid_values, {}, kConstraints,
       "Replace NaN scores by 0 and infinite ones by the largest finite numbers, or do not"},
      {"eos_token_id", &O::eos_token_id, kAnyIds, kSpecial, "Token ids that end a sequence, e.g. 0,3"},
      {"pad_token_id", &O::pad_token_id, {}, kSpecial, "Token id of padding"},
      {"decoder_start_token_id", &O::decoder_start_token_id, kKnownIds, kSpecial,
       "Token id the decoder starts from"},
      {"bos_token_id", &O::bos_token_id},
      {"max_source_length", &O::max_source_length, at_least(1)},
      {"cache_dtype", &O::cache_dtype, {}, kMemory, kCacheDTypeHelp},
  };
  return fields;
}
// clang-format on

namespace {

// An option's name in messages, with its range and, for token ids, the vocabulary.
class Checker {
 public:
  Checker(const OptionField& field, std::optional<std::int64_t> vocab_size)
      : field_(field), range_(field.range), vocab_size_(vocab_size) {}

  void operator()(bool) const {}
  void operator()(EarlyStopping) const {}
  void operator()(CacheDType) const {}
  void operator()(std::int64_t value) const {
    if (range_.ids != Ids::no) return check_id(value);
    require(holds(static_cast<double>(value)), "a whole number " + bounds(), value);
  }
  void operator()(double value) const {
    const std::string range = bounds();
    require(std::isfinite(value) && holds(value),
            range.empty() ? "a number" : fmt::format("a number {}", range), value);
  }
  template <class T>
  void operator()(const std::optional<T>& value) const {
    if (value) (*this)(*value);
  }
  void operator()(const std::pair<std::int64_t, double>& value) const { (*this)(value.second); }
  void operator()(const std::vector<std::int64_t>& ids) const {
    for (const std::int64_t id : ids) check_id(id);
  }
  void operator()(const std::vector<std::vector<std::int64_t>>& lists) const {
    for (const auto& ids : lists) check_sequence(ids);
  }
  void operator()(const std::vector<SequenceBias>& biases) const {
    for (const SequenceBias& bias : biases) {
      check_sequence(bias.ids);
      require(std::isfinite(bias.bias), "finite numbers", bias.bias);
    }
  }

 private:
  template <class T>
  void require(bool holds, const std::string& expected, const T& got) const {
    if (holds) return;
    throw Error(fmt::format("generation options: {}: expected {}, got {}", field_.name, expected, got));
  }
  void check_id(std::int64_t id) const {
    require(id >= 0, "token ids >= 0", id);
    // End and suppressed tokens outside the vocabulary have no effect.
    if (vocab_size_ && range_.ids == Ids::known)
      require(id < *vocab_size_, fmt::format("token ids below the vocabulary's size {}", *vocab_size_), id);
  }
  void check_sequence(const std::vector<std::int64_t>& ids) const {
    require(!ids.empty(), "lists of at least one token", "an empty one");
    (*this)(ids);
  }
  bool holds(double value) const {
    return (range_.above_min ? value > range_.min : value >= range_.min) &&
           (range_.below_max ? value < range_.max : value <= range_.max);
  }
  // "of at least 1", "above 0", "from 0 to below 1"; empty without limits.
  std::string bounds() const {
    const bool from = std::isfinite(range_.min), to = std::isfinite(range_.max);
    if (!from) return "";
    if (!to)
      return fmt::format("{} {}{}", range_.above_min ? "above" : "of at least", range_.min, range_.hint);
    if (range_.above_min) return fmt::format("above {} and at most {}", range_.min, range_.max);
    return fmt::format("from {} to {}{}", range_.min, range_.below_max ? "below " : "", range_.max);
  }

  const OptionField& field_;
  const OptionRange& range_;
  std::optional<std::int64_t> vocab_size_;
};

}  // namespace

void check_field(const OptionField& field, const GenerationOptions& options,
                 std::optional<std::int64_t> vocab_size) {
  std::visit([&](auto member) { Checker(field, vocab_size)(options.*member); }, field.member);
}

}  // namespace generate

namespace {

constexpr std::int64_t kDefaultNewTokens = 20;

// How a value of each type is read from a configuration that has the key.
void read(const Config& config, const char* name, bool& value) { value = config.boolean(name, value); }
void read(const Config& config, const char* name, std::int64_t& value) {
  value = config.required_integer(name);
}
void read(const Config& config, const char* name, double& value) { value = config.required_number(name); }
void read(const Config& config, const char* name, std::vector<std::int64_t>& ids) {
  ids = config.integers(name);
}
void read(const Config& config, const char* name, EarlyStopping& value) {
  if (config.is_string(name)) {
    if (config.required_string(name) != "never") config.fail(name, "true, false or \"never\"");
    value = EarlyStopping::never;
    return;
  }
  try {
    value = config.boolean(name, false) ? EarlyStopping::yes : EarlyStopping::no;
  } catch (const Error&) {
    config.fail(name, "true, false or \"never\"");
  }
}
void read(const Config& config, const char* name, CacheDType& value) {
  const auto dtype = cache_dtype_from_name(config.required_string(name));
  if (!dtype) config.fail(name, kCacheDTypeNames);
  value = *dtype;
}
void read(const Config& config, const char* name, std::vector<std::vector<std::int64_t>>& lists) {
  const Config list = config.sub(name);
  lists.clear();
  for (const std::string& index : list.names()) lists.push_back(list.integers(index));
}
void read(const Config& config, const char* name, std::vector<SequenceBias>& biases) {
  const Config list = config.sub(name);
  biases.clear();
  for (const std::string& index : list.names()) {
    const Config entry = list.sub(index);  // [[ids], bias]
    biases.push_back({entry.integers("0"), entry.required_number("1")});
  }
}
void read(const Config& config, const char* name, std::pair<std::int64_t, double>& value) {
  const Config pair = config.sub(name);
  value = {pair.required_integer("0"), pair.required_number("1")};
}
template <class T>
void read(const Config& config, const char* name, std::optional<T>& value) {
  read(config, name, value.emplace());
}

/// Ignores settings that do not change which tokens are generated.
void ignore_irrelevant(const Config& config) {
  config.ignore({"transformers_version",
                 "_from_model_config",
                 "_commit_hash",
                 "use_cache",
                 "cache_implementation",
                 "cache_config",
                 "compile_config",
                 "disable_compile",
                 "continuous_batching_config",
                 "low_memory",
                 "prefill_chunk_size",
                 "output_attentions",
                 "output_hidden_states",
                 "output_scores",
                 "output_logits",
                 "return_dict_in_generate",
                 "is_assistant",
                 "num_assistant_tokens",
                 "num_assistant_tokens_schedule",
                 "assistant_confidence_threshold",
                 "assistant_early_exit",
                 "assistant_lookbehind",
                 "target_lookbehind",
                 "prompt_lookup_num_tokens",
                 "max_matching_ngram_size"});
}

/// Returns the names of settings that request unsupported features. All of them are harmless at the value
/// that means "off".
std::vector<std::string> unsupported_settings(const Config& config) {
  std::vector<std::string> names;
  const auto expect_number = [&](const char* name, double off) {
    if (config.number(name, off) != off) names.emplace_back(name);
  };
  for (const char* name : {"guidance_scale", "num_beam_groups"}) {
    expect_number(name, 1);
  }
  expect_number("diversity_penalty", 0);
  if (config.boolean("token_healing", false)) names.emplace_back("token_healing");
  return names;
}

/// Overrides the options by those of a config. Returns the names of settings that are not supported.
std::vector<std::string> read_options(const Config& config, GenerationOptions& options) {
  for (const generate::OptionField& field : generate::option_fields()) {
    if (!config.has(field.name)) continue;
    std::visit([&](auto member) { read(config, field.name, options.*member); }, field.member);
  }
  ignore_irrelevant(config);
  std::vector<std::string> names = unsupported_settings(config);
  const std::vector<std::string> unused = config.unused();
  names.insert(names.begin(), unused.begin(), unused.end());
  return names;
}

/// check_generation_options with the file's name in the message.
void check_as_of(const Config& config, const GenerationOptions& options) {
  try {
    check_generation_options(options);
  } catch (const Error& error) {
    throw Error(config.where() + ": " + error.what());
  }
}

}  // namespace

GenerationOptions load_generation_options(const ModelFiles& model, std::vector<std::string>* unused) {
  constexpr const char *kOwn = "generation_config.json", *kOfModel = "config.json";
  const bool has_own = model.has(kOwn);
  GenerationOptions o;
  if (!has_own && !model.has(kOfModel)) return o;
  const Config config = Config::load(model, has_own ? kOwn : kOfModel);
  std::vector<std::string> not_understood = read_options(config, o);
  if (unused != nullptr && has_own) *unused = std::move(not_understood);
  check_as_of(config, o);
  return o;
}

GenerationOptions load_generation_options(const std::string& directory, std::vector<std::string>* unused) {
  return load_generation_options(model_files(directory), unused);
}

std::string apply_task(const std::string& directory, const std::string& task, GenerationOptions& options) {
  return apply_task(model_files(directory), task, options);
}

std::string apply_task(const ModelFiles& model, const std::string& task, GenerationOptions& options) {
  const Config config = Config::load(model, "config.json");
  const std::optional<Config> tasks = config.optional_sub("task_specific_params");
  if (!tasks || !tasks->has(task)) {
    const std::string known = tasks ? joined(tasks->names()) : "";
    throw Error(fmt::format("{}: task_specific_params: {} not found ({})", config.where(), task,
                            known.empty() ? "there are no tasks" : "there are " + known));
  }
  const Config settings = tasks->sub(task);
  const std::string prefix = settings.string("prefix", "");
  read_options(settings, options);
  check_as_of(config, options);
  return prefix;
}

void check_generation_options(const GenerationOptions& options, std::optional<std::int64_t> vocab_size) {
  for (const generate::OptionField& field : generate::option_fields())
    generate::check_field(field, options, vocab_size);
  const auto at_most = [](const char* name, std::int64_t value, std::int64_t most, const std::string& text) {
    if (value > most)
      throw Error(fmt::format("generation options: {}: expected {}, got {}", name, text, value));
  };
  if (options.max_new_tokens && options.min_new_tokens) {
    at_most("min_new_tokens", *options.min_new_tokens, *options.max_new_tokens,
            fmt::format("at most max_new_tokens {}", *options.max_new_tokens));
  }
  if (options.num_beams > 1) {
    at_most("num_return_sequences", options.num_return_sequences, options.num_beams,
            fmt::format("at most num_beams {}", options.num_beams));
  } else if (!options.do_sample) {
    at_most("num_return_sequences", options.num_return_sequences, 1,
            "1 in greedy search (use num_beams or do_sample)");
  }
}

std::int64_t resolved_max_length(const GenerationOptions& options, std::int64_t prompt_length) {
  constexpr std::int64_t kLongest = std::numeric_limits<std::int64_t>::max();
  if (options.max_new_tokens)
    return prompt_length + std::min(*options.max_new_tokens, kLongest - prompt_length);
  return options.max_length.value_or(prompt_length + kDefaultNewTokens);
}

}  // namespace heed
