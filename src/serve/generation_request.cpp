// Fields to options.
#include "serve/generation_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "core/strings.h"
#include "heed/generate/complete.h"

namespace heed::serve {
namespace {

constexpr std::int64_t kMostChoices = 64, kMostTokens = 1 << 24;
constexpr double kLargest = 1e6;
// Below it, sampling takes the most probable token; scores divided by less may not be finite.
constexpr double kLeastTemperature = 1e-5;

// As transformers' files say if they ask for sampling, else as OpenAI: temperature 1, and no limits.
void read_sampling(const ServedModel& model, const Fields& fields, GenerationOptions& options) {
  options = model.generation;
  options.num_beams = options.num_return_sequences = 1;
  if (!options.do_sample) {
    options.temperature = options.top_p = 1.0;
    options.top_k = 0;
  }
  options.temperature = fields.number("temperature", 0, 100).value_or(options.temperature);
  options.do_sample = options.temperature >= kLeastTemperature;
  if (!options.do_sample) options.temperature = 1.0;
  options.top_p = fields.number("top_p", 0, 1).value_or(options.top_p);
  options.top_k = std::max<std::int64_t>(0, fields.integer("top_k", -1, kMostTokens).value_or(options.top_k));
  if (const auto min_p = fields.number("min_p", 0, 1)) options.min_p = *min_p;
  options.repetition_penalty =
      fields.number("repetition_penalty", 1e-3, kLargest).value_or(options.repetition_penalty);
  const auto seed = fields.integer("seed", -1, std::numeric_limits<std::int64_t>::max());
  options.seed = static_cast<std::uint64_t>(seed.value_or(-1) == -1 ? std::random_device()() : *seed);
}

void read_ends(const ServedModel& model, const Fields& fields, TextRequest& request) {
  GenerationOptions& options = request.options;
  const std::int64_t last = model.model->vocab_size() - 1;
  if (options.eos_token_id.empty() && model.tokenizer->eos_id())
    options.eos_token_id = {*model.tokenizer->eos_id()};
  if (fields.boolean("ignore_eos").value_or(false)) options.eos_token_id.clear();
  for (const std::int64_t id : fields.integers("stop_token_ids", 0, last)) options.eos_token_id.push_back(id);
  request.min_tokens = fields.integer("min_tokens", 0, kMostTokens).value_or(0);
  request.stops = fields.strings("stop");
  for (const std::string& stop : request.stops) {
    if (stop.empty()) fields.fail("stop", "strings with characters");
  }
}

void read_biases(const ServedModel& model, const Fields& fields, TextRequest& request) {
  request.presence_penalty = fields.number("presence_penalty", -2, 2).value_or(0);
  request.frequency_penalty = fields.number("frequency_penalty", -2, 2).value_or(0);
  const auto biases = fields.members("logit_bias");
  if (!biases) return;
  for (const auto& [key, value] : fields.object("logit_bias")->items()) {
    std::int64_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= model.model->vocab_size())
      throw ApiError(Problem::invalid,
                     fmt::format("request: logit_bias: expected ids of tokens below {}, got {}",
                                 model.model->vocab_size(), json_shown(key)),
                     "logit_bias");
    const auto bias = biases->number(key, -100, 100);
    if (!bias) biases->fail(key, "a number from -100 to 100");
    request.options.sequence_bias.push_back({{id}, *bias});
  }
}

// What changes an answer in other servers, and is not done here: no effect would be another answer than was
// asked for.
void refuse_unsupported(const Fields& fields) {
  constexpr struct {
    const char *name, *instead;
  } kUnsupported[] = {
      {"grammar", "guided_regex and guided_json are supported"},
      {"guided_grammar", "guided_regex and guided_json are supported"},
      {"chat_template", "the model has its own"},
      {"use_beam_search", "best_of takes the likeliest of several samples"},
      {"prompt_logprobs", "echo with logprobs gives them, in /v1/completions"},
      {"bad_words", "logit_bias is supported"},
      {"allowed_token_ids", "logit_bias and guided_regex are supported"},
      {"functions", "tools are supported"},
      {"function_call", "tool_choice is supported"},
  };
  for (const auto& [name, instead] : kUnsupported) {
    const Json* value = fields.find(name);
    if (value == nullptr || *value == false || (value->is_array() && value->empty())) continue;
    throw ApiError(Problem::not_supported,
                   fmt::format("request: {}: expected none ({}), got {}", name, instead, json_shown(*value)),
                   name);
  }
}

// A JSON Schema, or a text that is one.
std::string schema_text(const Fields& fields, const char* name) {
  const Json* value = fields.find(name);
  if (!value->is_string() && !value->is_object()) fields.fail(name, "a JSON Schema");
  return value->is_string() ? value->get<std::string>() : json_text(*value);
}

// What the answer may be, as OpenAI, llama.cpp and vLLM name it, vLLM in two ways.
void read_constraint(const Fields& fields, TextRequest& request) {
  const auto constrain = [&](const std::string& param, const auto& make) {
    if (request.grammar)
      throw ApiError(Problem::invalid,
                     fmt::format("request: expected one form of the answer, got {} and {}",
                                 request.grammar->where(), param),
                     param);
    try {
      request.grammar = make();
    } catch (const Error& error) {
      throw ApiError(Problem::invalid, std::string("request: ") + error.what(), param);
    }
  };
  if (const auto format = fields.members("response_format")) {
    const std::string type = format->string("type").value_or("text");
    const auto wrapped = format->members("json_schema");
    const Json* schema = wrapped ? wrapped->object("schema") : format->object("schema");
    if (type == "json_schema" && schema == nullptr)
      fields.fail("response_format", "json_schema with a schema");
    if (type == "json_schema" || (type == "json_object" && schema != nullptr)) {
      constrain("response_format", [&] { return Grammar::json_schema(json_text(*schema)); });
    } else if (type == "json_object") {
      constrain("response_format", [] { return Grammar::json_object(); });
    } else if (type != "text") {
      format->fail("type", "text, json_object or json_schema");
    }
  }
  const auto schema = [&](const Fields& from, const char* name) {
    if (from.find(name) == nullptr) return;
    const std::string where = from.path_of(name), text = schema_text(from, name);
    constrain(where, [&] { return Grammar::json_schema(text, where); });
  };
  const auto pattern = [&](const Fields& from, const char* name) {
    const std::string where = from.path_of(name);
    if (const auto given = from.string(name)) constrain(where, [&] { return Grammar::regex(*given, where); });
  };
  const auto choices = [&](const Fields& from, const char* name) {
    if (from.find(name) == nullptr) return;
    const std::string where = from.path_of(name);
    const std::vector<std::string> texts = from.strings(name);
    constrain(where, [&] { return Grammar::choices(texts, where); });
  };
  schema(fields, "json_schema");
  schema(fields, "guided_json");
  pattern(fields, "guided_regex");
  choices(fields, "guided_choice");
  const auto outputs = fields.members("structured_outputs");
  if (!outputs) return;
  for (const auto& [name, value] : fields.object("structured_outputs")->items()) {
    if (name != "json" && name != "regex" && name != "choice" && !value.is_null() && value != false)
      throw ApiError(Problem::not_supported,
                     fmt::format("request: structured_outputs: expected json, regex or choice, got {}",
                                 json_shown(name)),
                     outputs->path_of(name));
  }
  schema(*outputs, "json");
  pattern(*outputs, "regex");
  choices(*outputs, "choice");
}

// The field that asked for the grammar, for errors.
std::string constraint_of(const Grammar& grammar) {
  return grammar.where() == "tools" ? "tool_choice" : grammar.where();
}

// Functions that templates can show and grammars can call.
void check_tools(const Json& tools) {
  constexpr std::size_t kLongestName = 64;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const std::string path = "tools." + std::to_string(i);
    if (!tools[i].is_object())
      throw ApiError(Problem::invalid,
                     "request: " + path + ": expected an object, got " + json_shown(tools[i]), path);
    const Fields tool(tools[i], path);
    const auto function = tool.members("function");
    if (!function) tool.fail("function", "an object with a name");
    const std::string name = function->string("name").value_or("");
    const bool known = std::all_of(
        name.begin(), name.end(), [](char c) { return is_ascii_letter_or_digit(c) || c == '_' || c == '-'; });
    if (!known || name.empty() || name.size() > kLongestName)
      function->fail("name", "1 to 64 letters, digits, _ and -");
  }
}

// Which calls the answer may have: `auto` by default, or none, or one that it must have.
void read_tools(const ServedModel& model, const Fields& fields, TextRequest& request) {
  const Json* choice = fields.find("tool_choice");
  std::string only, how = "auto";
  if (choice != nullptr && choice->is_string()) {
    how = choice->get<std::string>();
  } else if (choice != nullptr) {
    const auto function =
        choice->is_object() ? Fields(*choice, "tool_choice").members("function") : std::nullopt;
    const auto name = function ? function->string("name") : std::nullopt;
    if (!name || name->empty()) fields.fail("tool_choice", "auto, none, required or the name of a function");
    only = *name;
    how = "required";
  }
  if (how != "auto" && how != "none" && how != "required")
    fields.fail("tool_choice", "auto, none, required or the name of a function");
  fields.boolean("parallel_tool_calls");
  const Json* tools = fields.array("tools");
  if (tools != nullptr) check_tools(*tools);
  if (how == "none") return;
  if (tools == nullptr || tools->empty()) {
    if (how == "required") fields.fail("tool_choice", "auto or none, as there are no tools");
    return;
  }
  if (!model.chat || !model.chat->reads_tools())
    throw ApiError(Problem::not_supported,
                   "request: tools: expected none, as the chat template of " + model.name +
                       " has no place for them (response_format and guided_json give answers in JSON)",
                   "tools");
  request.calls = model.chat->tool_calls();
  if (how == "auto") return;
  if (request.grammar)
    fields.fail("tool_choice",
                "auto or none with " + request.grammar->where() + ", which says what the answer is");
  ToolCallMarks marks;
  const auto mistral = model.tokenizer->token_to_id("[TOOL_CALLS]");
  if (request.calls == ToolCallFormat::mistral && mistral) {
    request.prompts.front().push_back(*mistral);  // which no grammar can write
    marks = {"[", "]", "arguments"};
  } else if (request.calls != ToolCallFormat::hermes) {
    request.calls = ToolCallFormat::llama;  // plain JSON, which every model can be made to write
    marks = {"", "", "parameters"};
  }
  try {
    request.grammar = Grammar::tool_calls(json_text(*tools), marks, only);
  } catch (const Error& error) {
    throw ApiError(Problem::invalid, std::string("request: ") + error.what(), "tools");
  }
}

void read_form(const Fields& fields, TextRequest& request) {
  request.choices = fields.integer("n", 1, kMostChoices).value_or(1);
  request.candidates = request.choices;
  request.stream = fields.boolean("stream").value_or(false);
  request.token_ids = fields.boolean("return_token_ids").value_or(false);
  request.tokens_as_ids = fields.boolean("return_tokens_as_token_ids").value_or(false);
  request.skip_special = fields.boolean("skip_special_tokens").value_or(true);
  const auto options = fields.members("stream_options");
  if (!options) return;
  if (!request.stream) fields.fail("stream_options", "none without stream");
  request.stream_usage = options->boolean("include_usage").value_or(false);
  request.usage_always = request.stream_usage && options->boolean("continuous_usage_stats").value_or(false);
}

void read_common(const ServedModel& model, const Fields& fields, TextRequest& request) {
  read_sampling(model, fields, request.options);
  read_ends(model, fields, request);
  read_biases(model, fields, request);
  refuse_unsupported(fields);
  read_constraint(fields, request);
  read_form(fields, request);
}

// The last tokens of each prompt, or the first.
void truncate_prompts(const ServedModel& model, const Fields& fields, TextRequest& request) {
  const auto most = fields.integer("truncate_prompt_tokens", -1, kMostTokens);
  const std::string side = fields.string("truncation_side").value_or("left");
  if (side != "left" && side != "right") fields.fail("truncation_side", "left or right");
  if (!most) return;
  if (*most == 0) fields.fail("truncate_prompt_tokens", "at least 1, or -1 for what the model takes");
  const std::int64_t kept = *most > 0 ? *most : std::min(model.context(), kMostTokens) - 1;
  for (auto& prompt : request.prompts) {
    const std::int64_t cut = std::ssize(prompt) - kept;
    if (cut <= 0) continue;
    const auto begin = side == "left" ? prompt.begin() : prompt.end() - cut;
    prompt.erase(begin, begin + cut);
  }
}

// The room that the prompts leave is the most that is generated.
void limit_lengths(const ServedModel& model, TextRequest& request, std::optional<std::int64_t> most) {
  std::int64_t longest = 0;
  for (const auto& prompt : request.prompts) longest = std::max(longest, std::ssize(prompt));
  const std::int64_t room = std::min(model.context(), kMostTokens) - longest;
  if (room <= 0)
    throw ApiError(
        Problem::too_long,
        fmt::format("request: {}: expected fewer tokens than {}, the model's maximum context length, got {} "
                    "(shorten it, or set truncate_prompt_tokens)",
                    request.chat ? "messages" : "prompt", model.context(), longest),
        request.chat ? "messages" : "prompt");
  request.is_empty = most == 0;
  GenerationOptions& options = request.options;
  options.max_length.reset();
  options.max_new_tokens = std::max<std::int64_t>(1, std::min(most.value_or(room), room));
  if (request.min_tokens > *options.max_new_tokens)
    throw ApiError(
        Problem::invalid,
        fmt::format("request: min_tokens: expected at most the {} tokens that there may be, got {}",
                    *options.max_new_tokens, request.min_tokens),
        "min_tokens");
  options.min_new_tokens = request.min_tokens;
  options.min_length = 0;
}

std::vector<std::int64_t> checked_ids(const ServedModel& model, const Fields& fields, const Json& list) {
  std::vector<std::int64_t> ids;
  for (const Json& one : list) {
    const bool known = one.is_number_integer() && one >= 0 && one < model.model->vocab_size();
    if (!known) fields.fail("prompt", fmt::format("ids of tokens below {}", model.model->vocab_size()));
    ids.push_back(one.get<std::int64_t>());
  }
  if (ids.empty()) fields.fail("prompt", "at least one token");
  return ids;
}

// A text, an array of texts, an array of ids, or an array of these. An echo of texts is what was given.
void read_prompts(const ServedModel& model, const Fields& fields, TextRequest& request) {
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr || (!prompt->is_string() && !prompt->is_array()))
    fields.fail("prompt", "a text, ids of tokens, or an array of these");
  if (prompt->empty() && prompt->is_array()) fields.fail("prompt", "at least one prompt");
  const bool special = fields.boolean("add_special_tokens").value_or(true);
  const bool echo = fields.boolean("echo").value_or(false);
  const auto add = [&](const Json& one) {
    if (one.is_string()) {
      const std::string& text = one.get_ref<const std::string&>();
      try {
        request.prompts.push_back(special ? prompt_ids(*model.tokenizer, text, model.generation)
                                          : model.tokenizer->encode(text, false).ids);
      } catch (const Error& error) {
        throw ApiError(Problem::invalid, error.what(), "prompt");
      }
      if (request.prompts.back().empty()) fields.fail("prompt", "texts with tokens");
      if (echo) request.echoes.push_back(text);
    } else if (one.is_array()) {
      request.prompts.push_back(checked_ids(model, fields, one));
      if (echo) request.echoes.push_back(model.tokenizer->decode_clean(request.prompts.back(), false));
    } else {
      fields.fail("prompt", "texts or ids of tokens alone");
    }
  };
  const bool is_list = prompt->is_array() && !prompt->front().is_number();
  if (!is_list) return add(*prompt);
  for (const Json& one : *prompt) add(one);
}

Json conversation_of(const Fields& fields) {
  const Json* messages = fields.array("messages");
  if (messages == nullptr || messages->empty()) fields.fail("messages", "at least one message");
  Json conversation = {{"messages", *messages}};
  for (const char* name : {"add_generation_prompt", "continue_final_message"}) {
    if (const auto value = fields.boolean(name)) conversation[name] = *value;
  }
  const Json* choice = fields.find("tool_choice");
  const bool uses_tools = choice == nullptr || *choice != "none";
  for (const char* list : {"tools", "documents"}) {
    const Json* values = fields.array(list);
    if (values != nullptr && (uses_tools || *list != 't')) conversation[list] = *values;
  }
  if (const Json* more = fields.object("chat_template_kwargs")) conversation["chat_template_kwargs"] = *more;
  return conversation;
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
std::optional<std::int64_t> most_new_tokens(const Fields& fields, const char* name, std::int64_t least) {
  const auto most = fields.integer(name, -1, kMostTokens);
  if (!most || *most == -1) return std::nullopt;
  return fields.integer(name, least, kMostTokens);
}

}  // namespace

TextRequest read_completion(const ServedModel& model, const Fields& fields) {
  TextRequest request;
  read_common(model, fields, request);
  read_prompts(model, fields, request);
  truncate_prompts(model, fields, request);
  request.top_logprobs = fields.integer("logprobs", 0, 20);
  request.prompt_logprobs = request.top_logprobs && !request.echoes.empty();
  if (const auto suffix = fields.string("suffix"); suffix && !suffix->empty())
    throw ApiError(Problem::not_supported, "request: suffix: expected none", "suffix");
  request.candidates = fields.integer("best_of", request.choices, kMostChoices).value_or(request.choices);
  if (request.stream && request.candidates > request.choices) fields.fail("best_of", "n, in a stream");
  limit_lengths(model, request, most_new_tokens(fields, "max_tokens", 0).value_or(16));
  return request;
}

TextRequest read_chat(const ServedModel& model, const Fields& fields) {
  TextRequest request;
  request.chat = true;
  read_common(model, fields, request);
  const std::optional<std::int64_t> top = fields.integer("top_logprobs", 0, 20);
  if (fields.boolean("logprobs").value_or(false)) {
    request.top_logprobs = top.value_or(0);
  } else if (top.value_or(0) > 0) {
    fields.fail("top_logprobs", "logprobs to be true");
  }
  if (fields.boolean("echo").value_or(false)) fields.fail("echo", "false, as chats have no echo");
  request.prompts = {chat_prompt(model, conversation_of(fields))};
  read_tools(model, fields, request);
  if (request.prompts.front().empty()) fields.fail("messages", "a conversation that the template shows");
  truncate_prompts(model, fields, request);
  auto most = most_new_tokens(fields, "max_completion_tokens", 1);
  if (const auto other = most_new_tokens(fields, "max_tokens", 1); !most) most = other;
  limit_lengths(model, request, most);
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
            throw ApiError(Problem::invalid, std::string("request: ") + error.what(), param);
          }
        };
      }
      all.push_back(std::move(one));
    }
  }
  return all;
}

}  // namespace heed::serve
