// Taps: named values inside a model that a listener (a callback) can read or replace. Parts publish their
// values with `wants` and `emit`; if a name has no listener, the part uses its fused path and never computes
// the value. A listener may select heads, queries and keys; only these scores and weights are computed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// Called with the tap's full name (`decoder.layers.3.cross_attn.weights`) and its value, or the selected
/// part of it. Assigning another tensor of the same shape to `value` replaces it for the rest of the forward
/// pass (ablation, patching).
using Listener = std::function<void(const std::string& name, Tensor& value)>;

/// The indices begin, ..., end - 1; without `end`, all from `begin` on.
struct TapRange {
  std::int64_t begin = 0;
  std::optional<std::int64_t> end = std::nullopt;
  bool all() const { return begin == 0 && !end; }
};

/// The part of a value that a listener gets.
struct TapSelection {
  std::vector<std::int64_t> heads = {};  ///< in increasing order; empty: all
  TapRange queries = {};                 ///< positions, for values without keys (`out` [B, T, D])
  TapRange keys = {};
  bool all() const { return heads.empty() && queries.all() && keys.all(); }
};

/// The axes of a value that a selection acts on; -1: there is none.
struct TapAxes {
  int heads = -1, queries = -1, keys = -1;
};
inline constexpr TapAxes kTokenAxes{-1, 1, -1};  // [B, T, D]
inline constexpr TapAxes kQueryAxes{1, 2, -1};   // [B, H, T, d]
inline constexpr TapAxes kKeyAxes{1, -1, 2};     // [B, K, S, d]
inline constexpr TapAxes kScoreAxes{1, 2, 3};    // [B, H, T, S]

/// The heads and queries of a partly computed value, in increasing order; empty: all.
struct TapPart {
  std::vector<std::int64_t> heads = {}, queries = {};
  bool all() const { return heads.empty() && queries.empty(); }
};

/// Listeners by the names of taps, which may contain `*`.
/// Threads: one at a time; each thread has its own.
class Taps {
 public:
  Taps() = default;
  /// Adds to the listeners of `outer` (may be null), which are called first; `outer` must outlive this.
  explicit Taps(Taps* outer) : outer_(outer) {}

  /// Registers a listener for every tap whose name matches `pattern`; `*` matches any characters.
  void listen(std::string pattern, Listener listener) {
    listen(std::move(pattern), TapSelection(), std::move(listener));
  }
  /// The same for a part of the value. emit() throws Error for heads, queries or keys that do not exist.
  void listen(std::string pattern, TapSelection selection, Listener listener);
  /// Whether this name has a listener.
  bool wants(const std::string& name) const;
  /// The heads and queries that the listeners of `names` select, for a value with `heads` heads and `queries`
  /// queries; all if one listener selects all. Throws Error for heads or queries that do not exist.
  TapPart wanted_part(const std::vector<std::string>& names, std::int64_t heads, std::int64_t queries) const;
  /// Calls the listeners of the name, in the order of registration, each with its selection. `value` has only
  /// the heads and queries of `part`. Throws Error when a listener replaces its value with a tensor of
  /// another shape or dtype, or a part of a value that needs a gradient.
  void emit(const std::string& name, Tensor& value, TapAxes axes = {}, const TapPart& part = {});
  /// Called by a stack of layers before its pass: the position of the first of the pass's tokens.
  void begin_at(std::int64_t position);
  /// That position: 0, except in a step of decoding, where it is the number of earlier tokens (of the longest
  /// row).
  std::int64_t first_position() const { return first_position_; }
  /// Throws Error naming every pattern that has matched nothing, and the names that the model has: a
  /// misspelled name must not pass as a measurement.
  void require_all_fired() const;

 private:
  struct Entry {
    std::string pattern;
    TapSelection selection;
    Listener listener;
    bool fired = false;
  };
  /// Calls `visit(entry)` for every entry that matches, those of the outer Taps first.
  void each(const std::string& name, const std::function<void(const Entry&)>& visit) const;

  Taps* outer_ = nullptr;
  std::vector<Entry> entries_;
  std::int64_t first_position_ = 0;
  mutable std::set<std::string> kinds_;  // names asked for, with N in place of numbers
};

/// Listeners that replace a value: by zeros, by itself times `factor`, by itself plus `vector` (which
/// broadcasts to its shape), and by `value` (of the same shape).
Listener replace_by_zeros();
Listener replace_by_scaled(double factor);
Listener replace_by_sum(Tensor vector);
Listener replace_by(Tensor value);

}  // namespace heed
