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

}  // namespace heed::generate
