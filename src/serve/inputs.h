// Texts and ids of requests as a model reads them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heed/tasks/batches.h"
#include "serve/services.h"

namespace heed::serve {

/// Inputs of one request, and whether it was a list.
struct Inputs {
  std::vector<Encoding> texts;
  bool is_list = false;
  std::int64_t tokens() const;
};

/// The most tokens of a text that a model reads, by a recipe or without one.
std::int64_t longest_text(const ServedModel& model, const EmbeddingRecipe* recipe);

/// The most inputs of one request.
inline constexpr std::size_t kMostInputs = 4096;

/// The recipe that a request asks for by `prompt_name`, with or without `normalize`.
const EmbeddingRecipe& asked_recipe(const ServedModel& model, const Fields& fields, bool normalize);

/// Reads a text, an array of texts, ids, or an array of ids. Texts that are too long are cut, unless
/// `truncate` is false: ApiError.
Inputs read_inputs(const ServedModel& model, const Fields& fields, const char* key,
                   const EmbeddingRecipe& recipe);

/// The tokens of texts and pairs, cut in the same way.
std::vector<Encoding> encode_pairs(const ServedModel& model, const Fields& fields,
                                   const std::vector<TextPair>& pairs);

/// Throws ApiError for none, an array that is empty or too long, and anything else.
const Json& required_array(const Fields& fields, const char* key);

}  // namespace heed::serve
