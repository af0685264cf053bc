// From texts to batches: tokenized pairs, and rows of them as tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "heed/data/corpus.h"
#include "heed/export.h"
#include "heed/tensor.h"
#include "heed/text/tokenizer.h"

namespace HEED_API heed {

/// Token ids of the pairs, as the model receives them (including an end token, if any).
/// Threads: several may read one object at once.
class TokenizedCorpus {
 public:
  /// With a folder, a large corpus is kept in an unnamed file there, which disappears when the process ends.
  explicit TokenizedCorpus(const std::filesystem::path& folder = {});
  TokenizedCorpus(TokenizedCorpus&&) = default;
  TokenizedCorpus& operator=(TokenizedCorpus&&) = default;
  std::int64_t size() const;
  std::span<const std::int32_t> source(std::int64_t row) const;
  std::span<const std::int32_t> target(std::int64_t row) const;
  std::int64_t source_length(std::int64_t row) const { return static_cast<std::int64_t>(source(row).size()); }
  std::int64_t target_length(std::int64_t row) const { return static_cast<std::int64_t>(target(row).size()); }
  void add(std::span<const std::int32_t> source, std::span<const std::int32_t> target);
  /// Nothing is added afterward. Must be called before ids are read if there is a folder.
  void finish();

 private:
  struct Data;
  std::shared_ptr<Data> data_;
};

/// Limits on the tokenized sides; 0 = no limit.
struct TokenLimits {
  std::int64_t max_source_tokens = 0;
  std::int64_t max_target_tokens = 0;
  double max_ratio = 0;  ///< longer side / shorter side
};

/// Converts a text to ids. Called from several threads at once.
using TextEncoder = std::function<std::vector<std::int32_t>(std::string_view)>;

/// Tokenizes `rows` of the corpus, in order. Rows beyond the limits are counted in `report` as skipped (and
/// no longer as kept). `folder` is that of the result. Throws Error if no row is left.
TokenizedCorpus tokenize_corpus(const ParallelCorpus& corpus, std::span<const std::int64_t> rows,
                                const TextEncoder& encode_source, const TextEncoder& encode_target,
                                const TokenLimits& limits, DataReport& report,
                                const std::filesystem::path& folder = {});

/// A position in the endless sequence of batches.
struct BatchPosition {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;
  bool operator==(const BatchPosition&) const = default;
};

/// B pairs, padded on the right to the longest source S and the longest target T.
struct Batch {
  Tensor source_ids;               ///< i64 [B, S]
  Tensor source_mask;              ///< i64 [B, S]; 1 = token, 0 = padding
  Tensor labels;                   ///< i64 [B, T]; the target, padded with kIgnoredLabel
  std::int64_t source_tokens = 0;  ///< without padding
  std::int64_t target_tokens = 0;
};

constexpr std::int64_t kIgnoredLabel = -100;

/// The batch of these rows.
Batch make_batch(const TokenizedCorpus& corpus, const std::vector<std::int64_t>& rows, std::int64_t pad_id);

}  // namespace heed
