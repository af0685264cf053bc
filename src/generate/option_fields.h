// The single list of generation options: the name, member, values and help text of each. The reader of
// generation_config.json, the checks, and the command line with its help and warnings are loops over it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "heed/generate/options.h"
#include "heed/generate/search.h"
#include "heed/models/model.h"

namespace heed::generate {

/// The numbers that an option accepts: from `min` to `max`, which are finite or excluded. For lists, of each
/// element; for a pair, of its second number.
struct OptionRange {
  /// Whether the numbers are token ids: `known` ones must be in the vocabulary, others have no effect.
  enum class Ids : std::uint8_t { no, known, any };

  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is excluded
  bool below_max = false;  // max itself is excluded
  Ids ids = Ids::no;
  const char* hint = "";
};

/// The setting without which an option has no effect.
enum class OptionNeeds : std::uint8_t { nothing, sampling, beams };

inline constexpr const char* kCacheDTypeHelp =
    "Type of the keys and values that attention remembers while decoding: bf16 and f16 take half the memory, "
    "int8 "
    "about a quarter";

struct OptionField {
  template <class... T>
  using MemberOf = std::variant<T GenerationOptions::*...>;
  using Member =
      MemberOf<bool, std::int64_t, std::optional<std::int64_t>, double, std::optional<double>, EarlyStopping,
               CacheDType, std::vector<std::int64_t>, std::vector<std::vector<std::int64_t>>,
               std::vector<SequenceBias>, std::optional<std::pair<std::int64_t, double>>>;
  const char* name;  // in generation_config.json; on the command line with hyphens
  Member member;
  OptionRange range = {};
  const char* group = nullptr;  // of the help; null: not on the command line
  const char* help = nullptr;
  OptionNeeds needs = OptionNeeds::nothing;
};

/// All fields, in the order of the help.
const std::vector<OptionField>& option_fields();

/// Throws Error `generation options: NAME: expected X, got Y` if the field's value is out of range.
void check_field(const OptionField& field, const GenerationOptions& options,
                 std::optional<std::int64_t> vocab_size = {});

// The length of texts that end by themselves.

inline constexpr std::int64_t kUnlimitedLength = 512;

/// Without a maximum length in the options, sets it to the number of the model's positions, or to 512 tokens
/// for a model without a limit.
inline void allow_whole_length(const EncoderDecoderModel& model, GenerationOptions& options,
                               SearchHooks& hooks) {
  if (options.max_new_tokens || options.max_length) return;
  hooks.longest = model.max_positions();
  options.max_length = hooks.longest.value_or(kUnlimitedLength);
}

/// The same for a decoder: the number of tokens of the texts it was trained on, or 512 new ones if its config
/// does not have that.
inline void allow_whole_length(const DecoderModel& model, GenerationOptions& options) {
  if (options.max_new_tokens || options.max_length) return;
  const auto trained = model.trained_positions();
  (trained ? options.max_length : options.max_new_tokens) = trained.value_or(kUnlimitedLength);
}

}  // namespace heed::generate
