// Budget: what is left of the limits of a rendering; and TemplateError, an error of a template whose place is
// not known yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "heed/chat/chat_template.h"

namespace heed::chat {

/// What went wrong. Whoever knows the template and the line makes an Error of it.
struct TemplateError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Counts steps and bytes. It outlives all values that are charged to it.
class Budget {
 public:
  explicit Budget(const ChatLimits& limits) : steps_(limits.steps), bytes_(limits.bytes) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  void step(std::size_t count = 1) {
    steps_ -= static_cast<std::int64_t>(count);
    if (steps_ < 0) throw TemplateError("expected a template that ends within the limit of steps, got more");
  }
  /// Steps for work on `bytes` bytes of text.
  void scan(std::size_t bytes) { step(1 + bytes / 64); }
  void take(std::size_t bytes) {
    check(bytes);
    bytes_ -= static_cast<std::int64_t>(bytes);
  }
  void give_back(std::size_t bytes) { bytes_ += static_cast<std::int64_t>(bytes); }
  /// Throws if `bytes` bytes could not be taken.
  void check(std::size_t bytes) const {
    if (static_cast<std::int64_t>(bytes) > bytes_)
      throw TemplateError("expected a template within the limit of memory, got one that needs more");
  }

  std::int64_t iterators = 0;  ///< that exist

 private:
  std::int64_t steps_;
  std::int64_t bytes_;
};

/// Bytes that are taken from a budget as long as this exists. Without a budget nothing is counted.
class BudgetCharge {
 public:
  BudgetCharge(Budget* budget, std::size_t bytes) : budget_(budget), bytes_(bytes) {
    if (budget_ != nullptr) budget_->take(bytes_);
  }
  ~BudgetCharge() {
    if (budget_ != nullptr) budget_->give_back(bytes_);
  }
  BudgetCharge(const BudgetCharge&) = delete;
  BudgetCharge& operator=(const BudgetCharge&) = delete;
  void add(std::size_t bytes) {
    if (budget_ != nullptr) budget_->take(bytes);
    bytes_ += bytes;
  }

 private:
  Budget* budget_;
  std::size_t bytes_;
};

}  // namespace heed::chat
