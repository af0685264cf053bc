// PrefixCache: decodings of one row that finished requests leave behind, for prompts that begin alike.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "heed/models/model.h"
#include "heed/nn/cache_dtype.h"

namespace heed::generate {

/// Fewer common tokens than these are not worth a copy.
constexpr std::int64_t kLeastShared = 16;

/// How many of the tokens that a row has read a prompt may take over, with a decoding of this chunk_size:
/// those in common, but not all of the prompt, whose last token must be read for the next one. 0 if too few.
std::int64_t shared_tokens(std::span<const std::int64_t> read, std::span<const std::int64_t> prompt,
                           std::int64_t chunk_size);

class PrefixCache {
 public:
  explicit PrefixCache(std::size_t most_bytes, std::int64_t chunk_size)
      : most_bytes_(most_bytes), chunk_size_(chunk_size) {}

  struct Found {
    const Decoding* decoding = nullptr;  ///< of one row; null if there is none
    std::int64_t length = 0;             ///< tokens that the prompt may take over
  };
  /// The decoding with the longest common beginning, which counts as used.
  Found find(std::span<const std::int64_t> prompt, CacheDType dtype);
  /// Whether a decoding that has read `ids` is worth keeping: not if one of the others, which counts as used
  /// then, has read all of them, or all but kLeastShared.
  bool wants(std::span<const std::int64_t> ids, CacheDType dtype);
  /// Keeps a decoding of one row that has read `ids`, if it fits, in place of those that it makes needless.
  void keep(std::vector<std::int64_t> ids, CacheDType dtype, std::unique_ptr<Decoding> decoding);
  std::size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::vector<std::int64_t> ids;
    CacheDType dtype;
    std::unique_ptr<Decoding> decoding;
    std::size_t bytes;
  };
  // Whether the first has all that the second could give.
  bool holds(const Entry& entry, std::span<const std::int64_t> ids, CacheDType dtype) const;

  std::size_t most_bytes_;
  std::int64_t chunk_size_;
  std::size_t bytes_ = 0;
  std::list<Entry> entries_;  // the most recently used first
};

}  // namespace heed::generate
