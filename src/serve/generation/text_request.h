// What /v1/completions and /v1/chat/completions of OpenAI ask for: their fields, and what becomes of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heed/chat/tool_calls.h"
#include "heed/generate/generation.h"
#include "heed/grammar/grammar.h"
#include "serve/inspection.h"
#include "serve/model_server.h"
#include "serve/routes/text_inputs.h"

namespace heed::serve {

/// What to generate, and what the answer shows of it.
struct TextRequest {
  bool chat = false;
  std::vector<std::vector<std::int64_t>> prompts;
  std::vector<std::string> echoes;  ///< put before each answer of a prompt; empty: nothing
  std::int64_t choices = 1;         ///< of each prompt
  std::int64_t candidates = 1;      ///< of each prompt, of which the choices are the likeliest
  GenerationOptions options;
  double presence_penalty = 0, frequency_penalty = 0;
  std::vector<std::string> stops;
  bool includes_stop = false;                ///< in the answer
  std::int64_t min_tokens = 0;               ///< before which nothing ends an answer
  bool is_empty = false;                     ///< max_tokens 0: no new token is shown
  bool skip_special = true;                  ///< in the text
  std::optional<std::int64_t> top_logprobs;  ///< nothing: no log-probabilities are shown
  bool prompt_logprobs = false;              ///< those of an echo, too
  bool tokens_as_ids = false;                ///< `token_id:5` in place of texts of tokens
  bool stream = false, stream_usage = false, usage_always = false;
  bool token_ids = false;                       ///< the ids are shown, too
  std::optional<Grammar> grammar;               ///< of what the answer may be
  ToolCallFormat calls = ToolCallFormat::none;  ///< that are taken out of the answer
  std::string tools = "[]";                     ///< that these may name, as JSON
  bool one_call = false;                        ///< all but the first are left out
  bool thinks = false;                          ///< the answer may have reasoning
  bool is_thinking = false;                     ///< it begins within it
  bool reasoning_in_content = false;            ///< as the model writes it
};

/// The fields that these routes have. JSON belongs to the body of the request.
struct TextFields {
  TextFields() = default;
  explicit TextFields(const ServedModel& model);
  void walk(Fields& fields);
  void walk_sampling(Fields& fields);  ///< of these, how tokens are chosen
  UnsupportedKeywords unsupported() const {
    return json_schema_lax ? UnsupportedKeywords::ignored : UnsupportedKeywords::refused;
  }

  std::int64_t last_id = std::numeric_limits<std::int64_t>::max();  ///< of the vocabulary
  TextRequest request;                                              ///< those that are taken as they are
  std::optional<double> temperature, top_p, min_p, typical_p, repetition_penalty, repeat_penalty;
  std::optional<std::int64_t> top_k, seed, max_tokens, max_completion_tokens, max_new_tokens, n_predict,
      truncate_prompt_tokens;
  std::optional<bool> do_sample;
  std::vector<std::int64_t> stop_token_ids;
  bool ignore_eos = false, has_stream_options = false, json_schema_lax = false;
  std::string truncation_side = "left";
  const Json *logit_bias = nullptr, *response_format = nullptr, *json_schema = nullptr,
             *guided_json = nullptr, *structured_outputs = nullptr;
  std::optional<std::string> guided_regex;
  std::vector<std::string> guided_choice;
  InspectionFields inspection;
};

struct CompletionFields : TextFields {
  using TextFields::TextFields;
  void walk(Fields& fields);

  const Json* prompt = nullptr;
  bool echo = false, add_special_tokens = true;
  std::optional<std::int64_t> best_of, logprobs;
  std::optional<std::string> suffix;
};

struct ChatFields : TextFields {
  using TextFields::TextFields;
  void walk(Fields& fields);

  const Json *messages = nullptr, *tools = nullptr, *tool_choice = nullptr, *documents = nullptr,
             *chat_template_kwargs = nullptr;
  std::optional<std::int64_t> top_logprobs;
  bool logprobs = false, echo = false;
  std::string reasoning_format = "auto";
  std::optional<bool> add_generation_prompt, continue_final_message, parallel_tool_calls;
};

/// Throws ApiError for what is wrong, and for a prompt that leaves no room.
TextRequest completion_request(const RequestContext& context, CompletionFields&& given);
TextRequest chat_request(const RequestContext& context, ChatFields&& given);

// Of constraint.cpp.

/// Sets the grammar of a request that asks for a form of its answer. Throws ApiError for more than one form,
/// and for one that is not supported.
void read_constraint(const Fields& fields, const TextFields& given, TextRequest& request);

// Of tools.cpp.

/// Which calls of functions the answer may have, after its prompt is known: by `tool_choice` any of the tools
/// (auto, the default), none, or one that it must have, in the form of the template if the model has its
/// tokens and else as JSON. Sets their format, and the grammar. Throws ApiError for wrong ones.
void read_tools(const RequestContext& context, const ChatFields& given, TextRequest& request);

/// The requests for the model, choice by choice of each prompt.
std::vector<GenerationRequest> generation_requests(const ServedModel& model, const TextRequest& request);

}  // namespace heed::serve
