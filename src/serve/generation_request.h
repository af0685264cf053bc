// Reads the requests of OpenAI's /v1/completions and /v1/chat/completions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heed/chat/tool_calls.h"
#include "heed/generate/generation.h"
#include "heed/grammar/grammar.h"
#include "serve/fields.h"
#include "serve/served_model.h"

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
};

/// Throws ApiError for what is wrong, and for a prompt that leaves no room.
TextRequest read_completion(const ServedModel& model, const Fields& fields);
TextRequest read_chat(const ServedModel& model, const Fields& fields);

/// The requests for the model, choice by choice of each prompt.
std::vector<GenerationRequest> generation_requests(const ServedModel& model, const TextRequest& request);

}  // namespace heed::serve
