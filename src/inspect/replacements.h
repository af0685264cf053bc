// What stands in the place of the outputs of heads and feed-forward networks: zeros, means, or what they are
// for another input.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "heed/inspect/ablation.h"

namespace heed::inspect {

inline constexpr const char* kFeedForward = "feed_forward";

/// By tap: [1 or rows, heads or 1, 1 or T, d].
using Replacements = std::map<std::string, Tensor>;

/// The tap of a component's output.
std::string tap_of(const Component& component);
/// [B, H, T, d]: a feed-forward network is a single head.
Tensor with_heads(const Tensor& value);

/// Throws Error for a component that the model, run with `input`, does not have.
void check_components(const Model& model, const TensorMap& input, std::span<const Component> components);

/// The reference inputs of the options, or those that are replaced where there are none.
std::vector<const TensorMap*> references_of(const AblationOptions& options,
                                            std::span<const TensorMap* const> own);

/// An input whose values are replaced. `own`: which of the reference inputs it is, if it is one; else -1.
struct ReplacedInput {
  const TensorMap& input;
  std::int64_t own = -1;
  std::int64_t number = 0;  ///< draws what it is resampled from, and names it in errors
};

class ReplacementSource {
 public:
  /// Runs the model on the references for a mean, now. All must outlive the object.
  ReplacementSource(const Model& model, std::set<std::string> taps, const AblationOptions& options,
                    std::span<const TensorMap* const> references);
  /// The values for some inputs, a row each or one for all; none for zeros.
  Replacements of(std::span<const ReplacedInput> inputs) const;

 private:
  Replacements values_of(const TensorMap& input) const;
  Replacements resampled(std::span<const ReplacedInput> inputs) const;

  const Model& model_;
  std::set<std::string> taps_;
  const AblationOptions& options_;
  std::span<const TensorMap* const> references_;
  Replacements means_;
};

/// Overwrites one row's component in a tap's value, [B, H, T, d] or [B, T, D], by row `row_of_by` of the
/// replacements.
void replace_component(const Replacements& by, const std::string& tap, const Tensor& value, std::int64_t row,
                       const Component& component, std::int64_t row_of_by);

}  // namespace heed::inspect
