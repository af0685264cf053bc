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
  GenerationOptions options;
  double presence_penalty = 0, frequency_penalty = 0;
  std::vector<std::string> stops;
  std::optional<std::int64_t> top_logprobs;  ///< nothing: no log-probabilities are shown
  bool stream = false, stream_usage = false;
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
