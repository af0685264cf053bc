// Parts of a layer: attention, feed-forward and every other map from [B, T, D] to [B, T, D], held as one
// type, and what they remember while decoding.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "heed/error.h"
#include "heed/export.h"
#include "heed/nn/pass.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// New rows of a state: row i becomes a copy of the old row from[i].
struct RowReorder {
  std::vector<std::int64_t> from;
  std::int64_t old_rows = 0;
  std::vector<std::int64_t> lengths = {};  ///< tokens of the old row from[i]
  /// The first common[i] of them are in the old row i as well, from the same pass. 0 for i >= old_rows.
  std::vector<std::int64_t> common = {};
  std::vector<bool> same_source = {};  ///< whether the old rows i and from[i] have the same memory
};

/// Rows of two states of one part, the second's after the first's.
struct RowJoin {
  std::int64_t rows = 0, more_rows = 0;
  std::int64_t longest = 0, more_longest = 0;  ///< tokens of the longest row of each, at least one
};

/// What a part remembers of R rows of tokens: keys and values, a recurrent vector, a running sum.
/// Threads: one at a time.
class PartState {
 public:
  virtual ~PartState() = default;
  virtual void reorder(const RowReorder& rows) = 0;
  /// Forgets all tokens but the first `length` of every row; the next pass says so (Pass::past). Throws Error
  /// where they cannot be taken out of what is remembered.
  virtual void truncate(std::int64_t length) = 0;
  /// As StackState::chunk_size(). A part that says 0 need not join() nor copy_row().
  virtual std::int64_t chunk_size() const { return 0; }
  /// Appends copies of the rows of `other`, a state of the same part. Throws Error for another cache_dtype.
  virtual void join(const PartState&, const RowJoin&) { refuse_rows(); }
  /// The first `length` tokens of a row, of `row_length`, as a state of its own. Throws Error as truncate()
  /// does.
  virtual std::unique_ptr<PartState> copy_row(std::int64_t /*row*/, std::int64_t /*row_length*/,
                                              std::int64_t /*length*/) const {
    refuse_rows();
  }
  virtual std::size_t bytes() const = 0;

 private:
  [[noreturn]] static void refuse_rows() {
    throw Error("decoding: expected rows that depend on their own tokens alone, got rows that do not");
  }
};

/// Holds a part of any kind; copies share it. A kind has `Tensor operator()(const Tensor& x, Pass& pass,
/// PartState* state) const`; if it remembers, also `std::unique_ptr<PartState> make_state(const Tensor&
/// memory) const`, whose result its call operator gets while decoding (otherwise null).
/// Threads: several may use one object at once.
class Part {
 public:
  template <class Kind>
  requires(!std::same_as<Kind, Part>) Part(Kind kind)
      : held_(std::make_shared<const Holder<Kind>>(std::move(kind))) {}

  Tensor operator()(const Tensor& x, Pass& pass, PartState* state) const {
    return held_->run(x, pass, state);
  }
  /// An empty state; null for a part that remembers nothing. `memory` [B, S, D'] is that of cross-attention.
  std::unique_ptr<PartState> make_state(const Tensor& memory) const { return held_->make_state(memory); }
  /// The part, if it is of this kind; else null.
  template <class Kind>
  const Kind* as() const {
    const auto* holder = dynamic_cast<const Holder<Kind>*>(held_.get());
    return holder != nullptr ? &holder->kind : nullptr;
  }

 private:
  struct Held {
    virtual ~Held() = default;
    virtual Tensor run(const Tensor& x, Pass& pass, PartState* state) const = 0;
    virtual std::unique_ptr<PartState> make_state(const Tensor& memory) const = 0;
  };
  template <class Kind>
  struct Holder final : Held {
    explicit Holder(Kind held) : kind(std::move(held)) {}
    Tensor run(const Tensor& x, Pass& pass, PartState* state) const override { return kind(x, pass, state); }
    std::unique_ptr<PartState> make_state(const Tensor& memory) const override {
      if constexpr (requires { kind.make_state(memory); }) return kind.make_state(memory);
      return nullptr;
    }
    Kind kind;
  };
  std::shared_ptr<const Held> held_;
};

}  // namespace heed
