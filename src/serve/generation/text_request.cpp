// Fields to options.
#include "serve/generation/text_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "heed/chat/reasoning.h"
#include "heed/generate/complete.h"

namespace heed::serve {
namespace {

using server::FieldRule;
using server::RequestObject;

constexpr std::int64_t kMostChoices = 64, kMostTokens = 1 << 24, kMostLogprobs = 20;
constexpr std::int64_t kMostCandidates = 4096;  // of all prompts
constexpr double kLargest = 1e6;
// Below it, sampling takes the most probable token; scores divided by less may not be finite.
constexpr double kLeastTemperature = 1e-5;
constexpr const char* kPromptForm = "a text, ids of tokens, or an array of these";
const FieldRule kTokens{.least = -1, .most = kMostTokens};

// As transformers' files say if they ask for sampling, else as OpenAI: temperature 1, and no limits.
GenerationOptions sampling_options(const ServedModel& model, const TextFields& given) {
  GenerationOptions options = model.opened.generation();
  options.num_beams = options.num_return_sequences = 1;
  if (!options.do_sample) {
    options.temperature = options.top_p = 1.0;
    options.top_k = 0;
  }
  const auto greedy = given.do_sample && !*given.do_sample ? std::optional(0.0) : given.temperature;
  options.temperature = greedy.value_or(options.temperature);
  options.do_sample = options.temperature >= kLeastTemperature;
  if (!options.do_sample) options.temperature = 1.0;
  options.top_p = given.top_p.value_or(options.top_p);
  options.top_k = std::max<std::int64_t>(0, given.top_k.value_or(options.top_k));
  if (given.min_p) options.min_p = given.min_p;
  options.typical_p = given.typical_p.value_or(options.typical_p);
  options.repetition_penalty = given.repetition_penalty
                                   ? *given.repetition_penalty
                                   : given.repeat_penalty.value_or(options.repetition_penalty);
  const std::int64_t seed = given.seed.value_or(-1);
  options.seed = static_cast<std::uint64_t>(seed == -1 ? std::random_device()() : seed);
  return options;
}

void add_ends(const RequestContext& context, const TextFields& given, TextRequest& request) {
  std::vector<std::int64_t>& ends = request.options.eos_token_id;
  const auto eos = context.model.tokenizer().eos_id();
  if (ends.empty() && eos) ends = {*eos};
  if (given.ignore_eos) ends.clear();
  ends.insert(ends.end(), given.stop_token_ids.begin(), given.stop_token_ids.end());
  for (const std::string& stop : request.stops) {
    if (stop.empty()) context.fields.fail("stop", "strings with characters");
  }
}

void add_biases(const ServedModel& model, const Json& given, TextRequest& request) {
  const RequestObject biases(given, "logit_bias");
  for (const auto& [key, value] : given.items()) {
    std::int64_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= model.model().vocab_size())
      throw ApiError(ErrorCode::invalid,
                     fmt::format("request: logit_bias: expected ids of tokens from 0 to {}, got {}",
                                 model.model().vocab_size() - 1, json_shown(key)),
                     "logit_bias");
    const auto bias = biases.number(key, -100, 100);
    if (!bias) biases.fail(key, "a number from -100 to 100");
    request.options.sequence_bias.push_back({{id}, *bias});
  }
}

// The last tokens of each prompt, or the first; an echo is what is left.
void truncate_prompts(const RequestContext& context, const TextFields& given, TextRequest& request) {
  const auto most = given.truncate_prompt_tokens;
  if (!most) return;
  if (*most == 0) context.fields.fail("truncate_prompt_tokens", "at least 1, or -1 for what the model takes");
  const std::int64_t kept = *most > 0 ? *most : std::min(context.model.context(), kMostTokens) - 1;
  for (std::size_t i = 0; i < request.prompts.size(); ++i) {
    std::vector<std::int64_t>& prompt = request.prompts[i];
    const std::int64_t cut = std::ssize(prompt) - kept;
    if (cut <= 0) continue;
    const auto begin = given.truncation_side == "left" ? prompt.begin() : prompt.end() - cut;
    prompt.erase(begin, begin + cut);
    if (!request.echoes.empty()) request.echoes[i] = context.model.tokenizer().decode_clean(prompt, false);
  }
}

// Before anything is made of them: each candidate reads its prompt.
void require_few_tokens(const RequestContext& context, const TextRequest& request) {
  std::int64_t tokens = 0;
  for (const auto& prompt : request.prompts) tokens += std::ssize(prompt) * request.candidates;
  if (tokens > context.services.limits.queue_tokens)
    throw ApiError(
        ErrorCode::too_large,
        fmt::format(
            "request: expected prompts of at most {} tokens, times n or best_of (--max-queue-tokens), "
            "got {}",
            context.services.limits.queue_tokens, tokens));
}

// The new tokens that a prompt leaves room for.
std::int64_t room_of(const ServedModel& model, const std::vector<std::int64_t>& prompt) {
  return std::min(model.context(), kMostTokens) - std::ssize(prompt);
}

// Each prompt is continued as far as asked for, or as far as its own room goes.
void limit_lengths(const RequestContext& context, TextRequest& request, std::optional<std::int64_t> most) {
  const ServedModel& model = context.model;
  if (const auto& all = context.services.limits.new_tokens) most = std::min(most.value_or(*all), *all);
  std::int64_t room = kMostTokens, most_room = 0, longest = 0;
  for (const auto& prompt : request.prompts) {
    room = std::min(room, room_of(model, prompt));
    most_room = std::max(most_room, room_of(model, prompt));
    longest = std::max(longest, std::ssize(prompt));
  }
  if (room <= 0)
    throw ApiError(
        ErrorCode::too_long,
        fmt::format("request: {}: expected fewer tokens than {}, the model's maximum context length, got {} "
                    "(shorten it, or set truncate_prompt_tokens)",
                    request.chat ? "messages" : "prompt", model.context(), longest),
        request.chat ? "messages" : "prompt");
  request.is_empty = most == 0;
  GenerationOptions& options = request.options;
  options.max_length.reset();
  options.max_new_tokens = std::max<std::int64_t>(1, std::min(most.value_or(most_room), most_room));
  const std::int64_t least = std::min(*options.max_new_tokens, room);
  if (request.min_tokens > least)
    throw ApiError(
        ErrorCode::invalid,
        fmt::format("request: min_tokens: expected at most the {} tokens that there may be, got {}", least,
                    request.min_tokens),
        "min_tokens");
  options.min_new_tokens = request.min_tokens;
  options.min_length = 0;
}

std::vector<std::int64_t> checked_ids(const ServedModel& model, const Fields& fields, const Json& list) {
  std::vector<std::int64_t> ids;
  for (const Json& one : list) ids.push_back(token_id("prompt", one, model.model().vocab_size()));
  if (ids.empty()) fields.fail("prompt", "at least one token");
  return ids;
}

// A text, an array of texts, an array of ids, or an array of these. An echo of texts is what was given.
void read_prompts(const RequestContext& context, const CompletionFields& given, TextRequest& request) {
  const Json& prompt = *given.prompt;
  const ServedModel& model = context.model;
  const Fields& fields = context.fields;
  if (!prompt.is_string() && !prompt.is_array()) fields.fail("prompt", kPromptForm);
  if (prompt.empty() && prompt.is_array()) fields.fail("prompt", "at least one prompt");
  const auto add = [&](const Json& one) {
    if (one.is_string()) {
      const std::string& text = one.get_ref<const std::string&>();
      require_bytes(model, "prompt", text, model.context(), false);
      try {
        request.prompts.push_back(given.add_special_tokens
                                      ? prompt_ids(model.tokenizer(), text, model.opened.generation())
                                      : model.tokenizer().encode(text, false).ids);
      } catch (const Error& error) {
        throw ApiError(ErrorCode::invalid, error.what(), "prompt");
      }
      if (request.prompts.back().empty()) fields.fail("prompt", "texts with tokens");
      if (given.echo) request.echoes.push_back(text);
    } else if (one.is_array()) {
      request.prompts.push_back(checked_ids(model, fields, one));
      if (given.echo) request.echoes.push_back(model.tokenizer().decode_clean(request.prompts.back(), false));
    } else {
      fields.fail("prompt", "texts or ids of tokens alone");
    }
  };
  const bool is_list = prompt.is_array() && !prompt.front().is_number();
  const std::int64_t candidates = (is_list ? std::ssize(prompt) : 1) * request.candidates;
  if (candidates > kMostCandidates)
    throw ApiError(
        ErrorCode::too_large,
        fmt::format("request: prompt: expected at most {} answers, prompts times n or best_of, got {}",
                    kMostCandidates, candidates),
        "prompt");
  if (!is_list) return add(prompt);
  for (const Json& one : prompt) add(one);
}

Json conversation_of(const ChatFields& given) {
  Json conversation = Json::object();
  conversation["messages"] = *given.messages;
  if (given.add_generation_prompt) conversation["add_generation_prompt"] = *given.add_generation_prompt;
  if (given.continue_final_message) conversation["continue_final_message"] = *given.continue_final_message;
  const bool uses_tools = given.tool_choice == nullptr || *given.tool_choice != "none";
  if (given.tools != nullptr && uses_tools) conversation["tools"] = *given.tools;
  if (given.documents != nullptr) conversation["documents"] = *given.documents;
  if (given.chat_template_kwargs != nullptr)
    conversation["chat_template_kwargs"] = *given.chat_template_kwargs;
  return conversation;
}

// The field that asked for the grammar, for errors.
std::string constraint_of(const Grammar& grammar) {
  return grammar.where() == "tools" ? "tool_choice" : grammar.where();
}

// Less likely the more often a token has been generated.
void penalize(double presence, double frequency, std::span<const std::int64_t> generated,
              std::span<float> scores) {
  std::map<std::int64_t, int> counts;
  for (const std::int64_t id : generated) ++counts[id];
  for (const auto& [id, count] : counts)
    scores[static_cast<std::size_t>(id)] -= static_cast<float>(presence + frequency * count);
}

// From `least` on; -1 is as absent.
std::optional<std::int64_t> most_new_tokens(const Fields& fields, const char* name,
                                            std::optional<std::int64_t> given, std::int64_t least) {
  if (!given || *given == -1) return std::nullopt;
  if (*given < least) fields.fail(name, fmt::format("an integer from {} to {}", least, kMostTokens));
  return given;
}

// Of all the names that it has, the first that is given.
std::optional<std::int64_t> asked_tokens(const Fields& fields, const TextFields& given, std::int64_t least) {
  std::optional<std::int64_t> most;
  for (const auto& [name, other] : {std::pair{"max_completion_tokens", given.max_completion_tokens},
                                    {"max_tokens", given.max_tokens},
                                    {"max_new_tokens", given.max_new_tokens},
                                    {"n_predict", given.n_predict}}) {
    const auto also = most_new_tokens(fields, name, other, least);
    if (!most) most = also;
  }
  return most;
}

// What both routes make of their fields in the same way.
TextRequest common_request(const RequestContext& context, TextFields& given) {
  TextRequest request = std::move(given.request);
  request.candidates = request.choices;
  request.options = sampling_options(context.model, given);
  add_ends(context, given, request);
  if (given.logit_bias != nullptr) add_biases(context.model, *given.logit_bias, request);
  read_constraint(context.fields, given, request);
  if (given.has_stream_options && !request.stream)
    context.fields.fail("stream_options", "none without stream");
  request.usage_always = request.stream_usage && request.usage_always;
  return request;
}

}  // namespace

TextFields::TextFields(const ServedModel& model)
    : last_id(model.model().vocab_size() - 1), inspection(model) {}

void TextFields::walk_sampling(Fields& fields) {
  option_field(
      fields, "temperature", temperature,
      "; 0: the likeliest token. Without it as `generation_config.json` says if it asks for sampling, else 1",
      FieldRule{.least = 0, .most = 100});
  option_field(fields, "top_p", top_p);
  option_field(fields, "top_k", top_k, {}, kTokens);
  option_field(fields, "min_p", min_p);
  option_field(fields, "typical_p", typical_p);
  fields("do_sample", do_sample, "`false`: as `temperature` 0");
  fields("seed", seed, "Of the random numbers: the same seed gives the same answer; -1 is as absent",
         {.least = -1});
  fields("presence_penalty", request.presence_penalty, "Less of the tokens that were generated",
         {.least = -2, .most = 2});
  fields("frequency_penalty", request.frequency_penalty, "The same, each time", {.least = -2, .most = 2});
  option_field(fields, "repetition_penalty", repetition_penalty,
               ": divides the scores of tokens that were there, prompt included",
               FieldRule{.least = 1e-3, .most = kLargest});
  fields("repeat_penalty", repeat_penalty, "As `repetition_penalty`", {.least = 1e-3, .most = kLargest});
  fields.object("logit_bias", logit_bias,
                "From ids of tokens to what is added to their scores, from -100 to 100", {.items = 4096});
}

void TextFields::walk(Fields& fields) {
  fields("max_tokens", max_tokens,
         "New tokens at most; completions: 16 without it, and 0 for none; chats: what the model has room "
         "for. -1 is "
         "as absent",
         kTokens);
  fields("max_completion_tokens", max_completion_tokens, "As `max_tokens`", kTokens);
  fields("max_new_tokens", max_new_tokens, "As `max_tokens`", kTokens);
  fields("n_predict", n_predict, "As `max_tokens`", kTokens);
  walk_sampling(fields);
  fields("n", request.choices, "Choices of each prompt", {.least = 1, .most = kMostChoices});
  fields("stop", request.stops, "A text, or an array of texts, that ends the answer and is not part of it",
         {.items = 64, .bytes = 256});
  fields("include_stop_str_in_output", request.includes_stop, "The text of `stop` is part of the answer");
  fields("stop_token_ids", stop_token_ids, "Further tokens that end the answer",
         {.least = 0, .most = static_cast<double>(last_id), .items = 1024});
  fields("ignore_eos", ignore_eos, "The model's end token does not end the answer");
  fields("min_tokens", request.min_tokens, "Before so many, nothing ends the answer",
         {.least = 0, .most = kMostTokens});
  fields("skip_special_tokens", request.skip_special, "The answer has no texts of special tokens");
  fields("truncate_prompt_tokens", truncate_prompt_tokens,
         "The last tokens of a prompt, at most so many; -1: as many as the model takes", kTokens);
  fields("truncation_side", truncation_side, "Where a prompt is cut", {.words = {"left", "right"}});
  fields("stream", request.stream, "Answer by server-sent events");
  has_stream_options = fields.members("stream_options", "With `stream`", [&](Fields& options) {
    options("include_usage", request.stream_usage, "The last event but one tells the usage");
    options("continuous_usage_stats", request.usage_always, "With `include_usage`: all events do");
  });
  fields.object(
      "response_format", response_format,
      "Of type `text`, `json_object`, or `json_schema` with `{\"json_schema\": {\"schema\": ...}}`: the "
      "answer "
      "is JSON [of that schema](structured.md), token by token. A schema that is not supported is an error; "
      "`max_tokens` may cut an answer (`length`)");
  fields.any("json_schema", json_schema, "As `guided_json`");
  fields.any("guided_json", guided_json,
             "A JSON Schema of the answer, as an object or as a text. Of all these forms one alone");
  fields(
      "json_schema_lax", json_schema_lax,
      "Ignore constraints of schemas that cannot be followed (`multipleOf`, `not`, `if`, ...), rather than "
      "refuse them. What is not enforced is in `warnings` of the answer");
  fields("guided_regex", guided_regex, "A regular expression of the answer");
  fields("guided_choice", guided_choice, "Texts, one of which is the answer", {.items = 4096});
  fields.object("structured_outputs", structured_outputs,
                "The same in one object: `json`, `regex` or `choice`");
  fields("return_tokens_as_token_ids", request.tokens_as_ids,
         "Log-probabilities are of `token_id:5` in place of texts");
  fields("return_token_ids", request.token_ids,
         "Tell the ids of the answer's tokens (`token_ids`), and of the prompt's (`prompt_token_ids`)");
  inspection.walk(fields);
  // What changes an answer in other servers, and is not done here: no effect would be another answer than was
  // asked for.
  fields.refused("grammar", "guided_regex and guided_json are supported");
  fields.refused("guided_grammar", "guided_regex and guided_json are supported");
  fields.refused("chat_template", "the model has its own");
  fields.refused("use_beam_search", "best_of takes the likeliest of several samples");
  fields.refused("max_output_tokens", "max_tokens is supported", 0);
  fields.refused("prompt_logprobs", "echo with logprobs gives them, in /v1/completions");
  fields.refused("bad_words", "logit_bias is supported");
  fields.refused("allowed_token_ids", "logit_bias and guided_regex are supported");
  fields.refused("mirostat", "temperature, top_p, min_p and typical_p are supported", 0);
  fields.refused("dry_multiplier", "repetition_penalty and frequency_penalty are supported", 0);
  fields.refused("xtc_probability", "min_p and typical_p are supported", 0);
  fields.refused("dynatemp_range", "temperature is supported", 0);
  fields.refused("lora", "serve the model with its adapter under another name");
  fields.refused("functions", "tools are supported");
  fields.refused("function_call", "tool_choice is supported");
}

void CompletionFields::walk(Fields& fields) {
  fields.any("prompt", prompt, "A text, ids of tokens, or an array of these",
             {.required = kPromptForm, .schema = kInputsSchema});
  fields("echo", echo,
         "Put the prompt before its continuation; with `logprobs`, with its own, the first null");
  fields("best_of", best_of,
         "Candidates, of which the `n` with the highest log-probability per token are the choices; not in a "
         "stream",
         {.least = 1, .most = kMostChoices});
  fields("add_special_tokens", add_special_tokens,
         "The prompt gets the tokens that the model expects around a text");
  fields("logprobs", logprobs,
         "Tell the log-probabilities of the tokens and of this many others: of the model's own distribution, "
         "before all "
         "that changes it. `text_offset` counts characters; a part of a character is `bytes:\\xf0`",
         {.least = 0, .most = kMostLogprobs});
  fields("suffix", suffix, "Not supported");
  TextFields::walk(fields);
}

void ChatFields::walk(Fields& fields) {
  fields.array(
      "messages", messages,
      "Objects with `role` and `content`. A last message of the assistant is the beginning of its answer",
      {.required = "at least one message", .items = 4096});
  fields("logprobs", logprobs,
         "Tell the log-probabilities of the answer's tokens: of the model's own distribution, before all "
         "that changes it");
  fields("top_logprobs", top_logprobs, "With `logprobs`, those of this many others, too",
         {.least = 0, .most = kMostLogprobs});
  fields.array(
      "tools", tools,
      "Functions that the model may call: calls in the [format of the model's "
      "template](structured.md#calls-of-functions) become `tool_calls`. Where a template has no place "
      "for them, the message of the system describes them, and a call is JSON. In a stream, text is "
      "sent until a call may begin",
      {.items = 128});
  fields.any("tool_choice", tool_choice,
             "`auto`, `none`, `required`, `{\"function\": {\"name\": ...}}`, or `{\"allowed_tools\": "
             "{\"mode\": ..., \"tools\": [...]}}`. A call is forced in the form of the template where the "
             "model has its tokens, else as JSON");
  fields("parallel_tool_calls", parallel_tool_calls,
         "`true`: a forced call may be several; `false`: all but the first call of an answer are left out");
  fields("reasoning_format", reasoning_format,
         "Where the reasoning of a model that thinks (`<think>` in its template) goes: `auto` or `deepseek`: "
         "to `reasoning_content` of the message or delta; `none`: to the content, as the model writes it",
         {.words = {"auto", "deepseek", "none"}});
  fields.array("documents", documents, "For the chat template", {.items = 4096});
  fields.object("chat_template_kwargs", chat_template_kwargs, "Further variables of the chat template",
                {.items = 64});
  fields("add_generation_prompt", add_generation_prompt, "End the prompt with the beginning of an answer");
  fields("continue_final_message", continue_final_message, "Go on with the last message");
  fields.refused("best_of", "n is supported", 1);
  fields.refused("suffix", "a last message of the assistant is continued", "");
  TextFields::walk(fields);
  if (fields.reads() != nullptr) fields("echo", echo, "");
}

TextRequest completion_request(const RequestContext& context, CompletionFields&& given) {
  const Fields& fields = context.fields;
  TextRequest request = common_request(context, given);
  if (given.best_of && *given.best_of < request.choices)
    fields.fail("best_of", fmt::format("an integer from {} to {}", request.choices, kMostChoices));
  request.candidates = given.best_of.value_or(request.choices);
  if (request.stream && request.candidates > request.choices) fields.fail("best_of", "n, in a stream");
  read_prompts(context, given, request);
  truncate_prompts(context, given, request);
  require_few_tokens(context, request);
  request.top_logprobs = given.logprobs;
  request.prompt_logprobs = request.top_logprobs && !request.echoes.empty();
  if (given.suffix && !given.suffix->empty())
    throw ApiError(ErrorCode::not_supported, "request: suffix: expected none", "suffix");
  limit_lengths(context, request, asked_tokens(fields, given, 0).value_or(16));
  return request;
}

TextRequest chat_request(const RequestContext& context, ChatFields&& given) {
  const Fields& fields = context.fields;
  TextRequest request = common_request(context, given);
  request.chat = true;
  if (given.logprobs) {
    request.top_logprobs = given.top_logprobs.value_or(0);
  } else if (given.top_logprobs.value_or(0) > 0) {
    fields.fail("top_logprobs", "logprobs to be true");
  }
  if (given.echo) fields.fail("echo", "false, as chats have no echo");
  if (given.messages->empty()) fields.fail("messages", "at least one message");
  EncodedChat prompt = chat_prompt(context.model, conversation_of(given));
  request.prompts = {std::move(prompt.encoding.ids)};
  // An answer of a given form is content.
  const ModelChat& chat = context.model.opened.chat_templates();
  request.is_thinking = begins_reasoning(prompt.text);
  request.thinks =
      !request.grammar && (request.is_thinking || chat.writes("<think>") || chat.writes("</think>"));
  request.reasoning_in_content = given.reasoning_format == "none";
  read_tools(context, given, request);
  request.thinks = request.thinks && !request.grammar;
  // Marks that are special tokens are read before they are left out.
  const Tokenizer& tokenizer = context.model.tokenizer();
  const auto thought_end = tokenizer.token_to_id("</think>");
  const bool thinks_by_token = request.thinks && thought_end && tokenizer.is_special(*thought_end);
  request.skip_special = request.skip_special && request.calls == ToolCallFormat::none && !thinks_by_token;
  if (request.prompts.front().empty()) fields.fail("messages", "a conversation that the template shows");
  truncate_prompts(context, given, request);
  require_few_tokens(context, request);
  limit_lengths(context, request, asked_tokens(fields, given, 1));
  return request;
}

std::vector<GenerationRequest> generation_requests(const ServedModel& model, const TextRequest& request) {
  std::vector<GenerationRequest> all;
  for (const auto& prompt : request.prompts) {
    std::function<void(std::size_t, std::span<const std::int64_t>, std::span<float>)> constrain;
    if (request.grammar)
      constrain = constrain_tokens(*request.grammar, *model.vocabulary, {prompt.size()},
                                   request.options.eos_token_id);
    for (std::int64_t choice = 0; choice < request.candidates; ++choice) {
      GenerationRequest one;
      one.prompt = prompt;
      one.options = request.options;
      one.options.max_new_tokens = std::min(*request.options.max_new_tokens, room_of(model, prompt));
      one.sample_id = static_cast<std::uint64_t>(choice);
      one.top = request.top_logprobs.value_or(0);
      const bool penalizes = request.presence_penalty != 0 || request.frequency_penalty != 0;
      if (penalizes || constrain) {
        one.hooks.process = [constrain, param = request.grammar ? constraint_of(*request.grammar) : "",
                             penalizes, presence = request.presence_penalty,
                             frequency = request.frequency_penalty, begin = prompt.size()](
                                std::size_t row, std::span<const std::int64_t> ids, std::span<float> scores) {
          if (penalizes) penalize(presence, frequency, ids.subspan(begin), scores);
          if (!constrain) return;
          try {
            constrain(row, ids, scores);
          } catch (const Error& error) {
            throw ApiError(ErrorCode::invalid, std::string("request: ") + error.what(), param);
          }
        };
      }
      all.push_back(std::move(one));
    }
  }
  return all;
}

}  // namespace heed::serve
