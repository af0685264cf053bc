// Shared by the commands: the common options, and the error for wrong use.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "heed/error.h"

namespace heed::cli {

/// Wrong use that is only detected while the command runs. The exit status is 2 instead of 1.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// The options that every command has.
struct Globals {
  bool quiet = false;
  bool verbose = false;
  bool json = false;
  int threads = 0;  // 0: all that the process may use
  std::optional<std::uint64_t> seed;
};

}  // namespace heed::cli
