// Images and sounds that the page sends, in memory only.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "heed/models/input.h"

namespace heed::explore {

/// Threads: one at a time.
class Files {
 public:
  /// Holds a file and returns its number. Beyond 128 MiB or 32 files the oldest are forgotten, but never the
  /// last two: one of each side.
  std::int64_t add(std::string bytes);
  /// Forgets the file that was added last.
  void drop_last();
  /// Throws Error for a number that no file has, or a forgotten one.
  const std::string& bytes(std::int64_t number) const;

 private:
  std::deque<std::pair<std::int64_t, std::string>> files_;
  std::int64_t last_ = 0;
};

/// `text`, `image` or `sound`: what a model reads.
const char* name_of(InputKind kind);

}  // namespace heed::explore
