// Validators of option values, which are checked before anything runs.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace heed::cli {

/// Accepts a decimal integer from `least` to `most`. For transform(), which then sees it without leading
/// zeros.
CLI::Validator whole_number(std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max());

/// Accepts a finite number. For check().
CLI::Validator finite_number();
/// The same, above 0.
CLI::Validator positive_number();

/// Parses "1,2,3" as ids. Throws UsageError naming `option` for anything else.
std::vector<std::int64_t> parse_ids(const std::string& list, const std::string& option);

/// The same for ids that must be below `vocab_size`.
std::vector<std::int64_t> token_ids(const std::string& list, const std::string& option,
                                    std::int64_t vocab_size);

}  // namespace heed::cli
