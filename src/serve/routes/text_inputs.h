// What the fields of several routes have in common: texts and ids as a model reads them, and generation
// options.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "generate/option_fields.h"
#include "heed/tasks/batches.h"
#include "serve/model_server.h"

namespace heed::serve {

inline constexpr const char* kInputsForm = "a text, ids of tokens, or an array of these";
inline constexpr std::string_view kTruncateNote = "Cut texts that are too long, else refuse them";

/// What is done with texts that are too long.
struct TruncationFields {
  void walk(Fields& fields);

  bool truncate = true;
  bool left = false;  ///< the end is kept
};

/// The fields of texts that an encoder reads.
struct TextInputFields {
  explicit TextInputFields(const char* given_key) : key(given_key) {}
  void walk(Fields& fields);

  const char* key;  ///< the name of the field that has them
  const Json* inputs = nullptr;
  TruncationFields truncation;
  std::optional<std::string> prompt_name;
};

/// The most tokens of a text that a model reads, by a recipe or without one.
std::int64_t longest_text(const ServedModel& model, const EmbeddingRecipe* recipe);

/// The most inputs of one request.
inline constexpr std::size_t kMostInputs = 4096;

/// The most bytes of a text that is cut, if its tokens may not have more.
inline constexpr std::int64_t kMostCutBytes = 1 << 20;

/// Before a text is tokenized. Throws ApiError (`code`) for more bytes than `tokens` tokens can have; of a
/// text that is cut, if they are more than kMostCutBytes, too.
void require_bytes(const ServedModel& model, const char* key, std::string_view text, std::int64_t tokens,
                   bool is_cut, ErrorCode code = ErrorCode::too_long);

/// The recipe of a `prompt_name`, with or without `normalize`; `object` has the field.
const EmbeddingRecipe& asked_recipe(const ServedModel& model, const std::optional<std::string>& prompt_name,
                                    const server::RequestObject& object, bool normalize);

/// Reads a text, an array of texts, ids, or an array of ids, none of which is empty. Texts that are too long
/// are cut, which the header X-Truncated-Inputs of the answer counts, or an ApiError.
std::vector<Encoding> read_inputs(const RequestContext& context, const Json& given, const char* key,
                                  const TruncationFields& truncation, const EmbeddingRecipe& recipe);

/// The tokens of texts and pairs, cut in the same way.
std::vector<Encoding> encode_pairs(const RequestContext& context, const std::vector<TextPair>& pairs,
                                   const TruncationFields& truncation);

/// A job of texts, whose answer is still to be said.
std::shared_ptr<EncoderJob> encoder_job(const RequestContext& context, EncoderWork work,
                                        std::vector<Encoding> texts);

/// Throws ApiError for an array that is empty or has too many inputs, and for anything else. An array of ids
/// is one input.
const Json& checked_array(const Json& list, const char* key);

/// Passes a field that is a generation option: its text and range are those of the one list of options.
/// `more` goes on with the text of the list; `rule` is a range of the server's own.
template <class T>
void option_field(server::Fields& fields, std::string_view name, std::optional<T>& value,
                  std::string_view more = {}, const std::optional<server::FieldRule>& rule = {}) {
  const auto& list = generate::option_fields();
  const auto option = std::find_if(list.begin(), list.end(),
                                   [&](const generate::OptionField& one) { return one.name == name; });
  HEED_ASSERT(option != list.end(), "unknown option");
  const server::FieldRule own = {.least = option->range.min, .most = option->range.max};
  if (fields.reads() != nullptr) return fields(option->name, value, {}, rule.value_or(own));
  fields(option->name, value, std::string(option->help).append(more), rule.value_or(own));
}

}  // namespace heed::serve
