#include "heed/generate/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "files/input_file.h"
#include "heed/error.h"
#include "heed/io/json.h"

namespace heed {

namespace {

/// More beams than any practical search uses, but few enough that a typing error does not exhaust the memory.
constexpr std::int64_t kMaxBeams = 1000;
// The same for sampled sequences.
constexpr std::int64_t kMaxReturned = 10000;
constexpr std::int64_t kDefaultNewTokens = 20;

EarlyStopping read_early_stopping(const Config& config) {
  try {
    return config.boolean("early_stopping", false) ? EarlyStopping::yes : EarlyStopping::no;
  } catch (const Error&) {  // not a boolean; the only valid string is "never"
    std::string word;
    try {
      word = config.string("early_stopping", "");
    } catch (const Error&) {
      config.fail("early_stopping", "true, false or \"never\"");
    }
    if (word != "never") config.fail("early_stopping", "true, false or \"never\"");
    return EarlyStopping::never;
  }
}

std::vector<std::vector<std::int64_t>> read_bad_words(const Config& config) {
  std::vector<std::vector<std::int64_t>> words;
  if (const auto list = config.optional_sub("bad_words_ids")) {
    for (const std::string& index : list->names()) words.push_back(list->integers(index));
  }
  return words;
}

std::vector<SequenceBias> read_sequence_bias(const Config& config) {
  std::vector<SequenceBias> biases;
  if (const auto list = config.optional_sub("sequence_bias")) {
    for (const std::string& index : list->names()) {
      const Config entry = list->sub(index);  // [[ids], bias]
      biases.push_back({entry.integers("0"), entry.required_number("1")});
    }
  }
  return biases;
}

std::optional<std::pair<std::int64_t, double>> read_decay(const Config& config) {
  const auto pair = config.optional_sub("exponential_decay_length_penalty");
  if (!pair) return {};
  return std::pair(pair->required_integer("0"), pair->required_number("1"));
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

class Checker {
 public:
  explicit Checker(std::optional<std::int64_t> vocab_size) : vocab_size_(vocab_size) {}

  template <class T>
  void require(bool holds, const char* name, const std::string& expected, const T& got) const {
    if (!holds) throw Error(fmt::format("generation options: {}: expected {}, got {}", name, expected, got));
  }
  void tokens(const char* name, const std::vector<std::int64_t>& ids) const {
    for (const std::int64_t id : ids) {
      require(id >= 0, name, "token ids >= 0", id);
      if (vocab_size_)
        require(id < *vocab_size_, name,
                fmt::format("token ids below the vocabulary's size {}", *vocab_size_), id);
    }
  }
  void token(const char* name, std::optional<std::int64_t> id) const {
    if (id) tokens(name, {*id});
  }

 private:
  std::optional<std::int64_t> vocab_size_;
};

void check_lengths(const GenerationOptions& o, const Checker& check) {
  if (o.max_new_tokens)
    check.require(*o.max_new_tokens >= 1, "max_new_tokens", "at least 1", *o.max_new_tokens);
  if (o.max_length) check.require(*o.max_length >= 1, "max_length", "at least 1", *o.max_length);
  if (o.min_new_tokens)
    check.require(*o.min_new_tokens >= 0, "min_new_tokens", "at least 0", *o.min_new_tokens);
  check.require(o.min_length >= 0, "min_length", "at least 0", o.min_length);
  if (o.max_new_tokens && o.min_new_tokens) {
    check.require(*o.min_new_tokens <= *o.max_new_tokens, "min_new_tokens",
                  fmt::format("at most max_new_tokens {}", *o.max_new_tokens), *o.min_new_tokens);
  }
}

void check_beams(const GenerationOptions& o, const Checker& check) {
  check.require(o.num_beams >= 1 && o.num_beams <= kMaxBeams, "num_beams", fmt::format("1 to {}", kMaxBeams),
                o.num_beams);
  check.require(o.num_return_sequences >= 1 && o.num_return_sequences <= kMaxReturned, "num_return_sequences",
                fmt::format("1 to {}", kMaxReturned), o.num_return_sequences);
  if (o.num_beams > 1) {
    check.require(o.num_return_sequences <= o.num_beams, "num_return_sequences",
                  fmt::format("at most num_beams {}", o.num_beams), o.num_return_sequences);
  } else if (!o.do_sample) {
    check.require(o.num_return_sequences == 1, "num_return_sequences",
                  "1 in greedy search (use num_beams or do_sample)", o.num_return_sequences);
  }
  check.require(std::isfinite(o.length_penalty), "length_penalty", "a finite number", o.length_penalty);
}

void check_sampling(const GenerationOptions& o, const Checker& check) {
  const auto positive = [](double x) { return std::isfinite(x) && x > 0; };
  check.require(positive(o.repetition_penalty), "repetition_penalty", "a number above 0",
                o.repetition_penalty);
  check.require(positive(o.encoder_repetition_penalty), "encoder_repetition_penalty", "a number above 0",
                o.encoder_repetition_penalty);
  check.require(positive(o.temperature), "temperature",
                "a number above 0 (for greedy search turn do_sample off)", o.temperature);
  check.require(o.no_repeat_ngram_size >= 0, "no_repeat_ngram_size", "at least 0", o.no_repeat_ngram_size);
  check.require(o.top_k >= 0, "top_k", "at least 0", o.top_k);
  check.require(o.top_p >= 0 && o.top_p <= 1, "top_p", "0 to 1", o.top_p);
  check.require(o.encoder_no_repeat_ngram_size >= 0, "encoder_no_repeat_ngram_size", "at least 0",
                o.encoder_no_repeat_ngram_size);
  check.require(o.typical_p > 0 && o.typical_p <= 1, "typical_p", "above 0 and at most 1", o.typical_p);
  check.require(o.epsilon_cutoff >= 0 && o.epsilon_cutoff < 1, "epsilon_cutoff", "0 to below 1",
                o.epsilon_cutoff);
  check.require(o.eta_cutoff >= 0 && o.eta_cutoff < 1, "eta_cutoff", "0 to below 1", o.eta_cutoff);
  if (o.exponential_decay_length_penalty) {
    check.require(positive(o.exponential_decay_length_penalty->second), "exponential_decay_length_penalty",
                  "a factor above 0", o.exponential_decay_length_penalty->second);
  }
  for (const SequenceBias& bias : o.sequence_bias) {
    check.require(!bias.ids.empty(), "sequence_bias", "lists of at least one token", "an empty one");
    check.require(std::isfinite(bias.bias), "sequence_bias", "finite numbers", bias.bias);
    check.tokens("sequence_bias", bias.ids);
  }
  if (o.top_h) check.require(*o.top_h > 0 && *o.top_h <= 1, "top_h", "above 0 and at most 1", *o.top_h);
  if (o.min_p) check.require(*o.min_p >= 0 && *o.min_p <= 1, "min_p", "0 to 1", *o.min_p);
}

/// Overrides the options by those of a config. Returns the names of settings that are not supported.
std::vector<std::string> read_options(const Config& config, GenerationOptions& o) {
  const auto overlay = [](auto& option, const auto& value) {
    if (value) option = value;
  };
  const auto overlay_ids = [&](std::vector<std::int64_t>& ids, const char* name) {
    if (config.has(name)) ids = config.integers(name);
  };
  overlay(o.max_new_tokens, config.optional_integer("max_new_tokens"));
  overlay(o.max_length, config.optional_integer("max_length"));
  overlay(o.min_new_tokens, config.optional_integer("min_new_tokens"));
  o.min_length = config.integer("min_length", o.min_length);
  o.num_beams = config.integer("num_beams", o.num_beams);
  o.num_return_sequences = config.integer("num_return_sequences", o.num_return_sequences);
  o.length_penalty = config.number("length_penalty", o.length_penalty);
  if (config.has("early_stopping")) o.early_stopping = read_early_stopping(config);
  o.repetition_penalty = config.number("repetition_penalty", o.repetition_penalty);
  o.encoder_repetition_penalty = config.number("encoder_repetition_penalty", o.encoder_repetition_penalty);
  o.no_repeat_ngram_size = config.integer("no_repeat_ngram_size", o.no_repeat_ngram_size);
  o.encoder_no_repeat_ngram_size =
      config.integer("encoder_no_repeat_ngram_size", o.encoder_no_repeat_ngram_size);
  if (config.has("sequence_bias")) o.sequence_bias = read_sequence_bias(config);
  overlay(o.exponential_decay_length_penalty, read_decay(config));
  if (config.has("bad_words_ids")) o.bad_words_ids = read_bad_words(config);
  overlay_ids(o.suppress_tokens, "suppress_tokens");
  overlay_ids(o.begin_suppress_tokens, "begin_suppress_tokens");
  o.remove_invalid_values = config.boolean("remove_invalid_values", o.remove_invalid_values);
  o.renormalize_logits = config.boolean("renormalize_logits", o.renormalize_logits);
  overlay_ids(o.eos_token_id, "eos_token_id");
  overlay(o.pad_token_id, config.optional_integer("pad_token_id"));
  overlay(o.bos_token_id, config.optional_integer("bos_token_id"));
  overlay(o.decoder_start_token_id, config.optional_integer("decoder_start_token_id"));
  overlay(o.forced_bos_token_id, config.optional_integer("forced_bos_token_id"));
  overlay_ids(o.forced_eos_token_id, "forced_eos_token_id");
  o.do_sample = config.boolean("do_sample", o.do_sample);
  o.temperature = config.number("temperature", o.temperature);
  o.top_k = config.integer("top_k", o.top_k);
  o.top_p = config.number("top_p", o.top_p);
  overlay(o.top_h, config.optional_number("top_h"));
  overlay(o.min_p, config.optional_number("min_p"));
  o.typical_p = config.number("typical_p", o.typical_p);
  o.epsilon_cutoff = config.number("epsilon_cutoff", o.epsilon_cutoff);
  o.eta_cutoff = config.number("eta_cutoff", o.eta_cutoff);
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

GenerationOptions load_generation_options(const std::string& directory, std::vector<std::string>* unused) {
  const std::filesystem::path folder = directory;
  const auto own = folder / "generation_config.json", of_model = folder / "config.json";
  const bool has_own = has_entry(own);
  GenerationOptions o;
  if (!has_own && !has_entry(of_model)) return o;
  const Config config = Config::load(has_own ? own : of_model);
  std::vector<std::string> not_understood = read_options(config, o);
  if (unused != nullptr && has_own) *unused = std::move(not_understood);
  check_as_of(config, o);
  return o;
}

std::string apply_task(const std::string& directory, const std::string& task, GenerationOptions& options) {
  const Config config = Config::load(std::filesystem::path(directory) / "config.json");
  const std::optional<Config> tasks = config.optional_sub("task_specific_params");
  if (!tasks || !tasks->has(task)) {
    std::string known;
    if (tasks) {
      for (const std::string& name : tasks->names()) known += (known.empty() ? "" : ", ") + name;
    }
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
  const Checker check(vocab_size);
  check_lengths(options, check);
  check_beams(options, check);
  check_sampling(options, check);
  for (const auto& word : options.bad_words_ids) {
    check.require(!word.empty(), "bad_words_ids", "lists of at least one token", "an empty one");
    check.tokens("bad_words_ids", word);
  }
  const Checker any_vocabulary({});  // end and suppressed tokens outside the vocabulary have no effect
  any_vocabulary.tokens("suppress_tokens", options.suppress_tokens);
  any_vocabulary.tokens("begin_suppress_tokens", options.begin_suppress_tokens);
  any_vocabulary.tokens("eos_token_id", options.eos_token_id);
  check.tokens("forced_eos_token_id", options.forced_eos_token_id);
  check.token("forced_bos_token_id", options.forced_bos_token_id);
  check.token("decoder_start_token_id", options.decoder_start_token_id);
}

std::int64_t resolved_max_length(const GenerationOptions& options, std::int64_t prompt_length) {
  constexpr std::int64_t kLongest = std::numeric_limits<std::int64_t>::max();
  if (options.max_new_tokens)
    return prompt_length + std::min(*options.max_new_tokens, kLongest - prompt_length);
  return options.max_length.value_or(prompt_length + kDefaultNewTokens);
}

}  // namespace heed
