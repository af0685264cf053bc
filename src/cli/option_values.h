// What a value on the command line must look like, checked before anything runs.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace heed::cli {

/// A decimal whole number from `least` to `most`; for transform(), which then sees it without leading zeros.
CLI::Validator whole_number(std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max());

/// A number that is neither infinite nor NaN; for check().
CLI::Validator finite_number();
/// The same, above 0.
CLI::Validator positive_number();

/// "1,2,3" as ids. Throws UsageError that names `option` for anything else.
std::vector<std::int64_t> parse_ids(const std::string& list, const std::string& option);

/// The same, for ids that must be below `vocab_size`.
std::vector<std::int64_t> token_ids(const std::string& list, const std::string& option,
                                    std::int64_t vocab_size);

}  // namespace heed::cli
