// Values in the place of others.
#include "inspect/replacements.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "heed/error.h"
#include "heed/nn/context.h"
#include "heed/nn/stack.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/random.h"

namespace heed::inspect {
namespace {

// Whether the input can lend its values, position by position, to another.
bool can_replace(const TensorMap& donor, const TensorMap& input) {
  return std::all_of(input.begin(), input.end(), [&](const auto& one) {
    const auto found = donor.find(one.first);
    if (found == donor.end()) return one.first == "labels";  // which only a loss needs
    const Tensor &theirs = found->second, &own = one.second;
    if (own.rank() == 2 && !is_floating(own.dtype()) && theirs.rank() == 2)
      return theirs.size(1) >= own.size(1);
    return theirs.shape() == own.shape();
  });
}

}  // namespace

std::string tap_of(const Component& c) {
  const bool feeds = c.part == kFeedForward;
  return c.stack + ".layers." + std::to_string(c.layer) + "." + c.part + (feeds ? ".added" : ".heads");
}

Tensor with_heads(const Tensor& value) { return value.rank() == 3 ? unsqueeze(value, 1) : value; }

void check_components(const Model& model, const TensorMap& input, std::span<const Component> components) {
  if (components.empty()) return;
  std::map<std::string, std::int64_t> heads;
  Taps taps;
  std::set<std::string> names;
  for (const Component& c : components) names.insert(tap_of(c));
  for (const std::string& tap : names)
    taps.listen(tap,
                [&](const std::string& name, Tensor& value) { heads[name] = with_heads(value).size(1); });
  Context context{.taps = &taps};
  model.forward(input, {.logits = false}, context);
  for (const Component& c : components) {
    const auto found = heads.find(tap_of(c));
    if (found == heads.end() || c.head >= found->second || c.layer < 0 ||
        (c.head < 0) != (c.part == kFeedForward)) {
      const Stack* stack = model.stack_named(c.stack);
      const std::int64_t layers = stack == nullptr ? 0 : std::ssize(stack->layers);
      const std::string expected = c.layer >= layers && layers > 0 ? "a layer below " + std::to_string(layers)
                                   : found != heads.end() && c.head >= found->second
                                       ? "a head below " + std::to_string(found->second)
                                       : "a head or feed-forward network of the model";
      throw Error("ablation: expected " + expected + ", got " +
                  (c.head < 0 ? std::to_string(c.layer) + ".ff"
                              : std::to_string(c.layer) + "." + std::to_string(c.head)));
    }
  }
}

std::vector<const TensorMap*> references_of(const AblationOptions& options,
                                            std::span<const TensorMap* const> own) {
  std::vector<const TensorMap*> references;
  for (const TensorMap& reference : options.reference) references.push_back(&reference);
  if (references.empty()) references.assign(own.begin(), own.end());
  return references;
}

ReplacementSource::ReplacementSource(const Model& model, std::set<std::string> taps,
                                     const AblationOptions& options,
                                     std::span<const TensorMap* const> references)
    : model_(model), taps_(std::move(taps)), options_(options), references_(references) {
  if (options.replacement != Replacement::mean) return;
  std::map<std::string, double> positions;
  Replacements sums;
  for (const TensorMap* const reference : references) {
    for (const auto& [tap, value] : values_of(*reference)) {
      const Tensor sum = heed::sum(value.to(DType::f64), 2, true);  // [1, H, 1, d]
      sums[tap] = sums.contains(tap) ? sums[tap] + sum : sum;
      positions[tap] += static_cast<double>(value.size(2));
    }
  }
  for (const auto& [tap, sum] : sums) means_[tap] = sum * (1 / positions.at(tap));
}

Replacements ReplacementSource::of(std::span<const ReplacedInput> inputs) const {
  return options_.replacement == Replacement::resample ? resampled(inputs) : means_;
}

// What a run of one input gives at the taps.
Replacements ReplacementSource::values_of(const TensorMap& input) const {
  Replacements values;
  Taps taps;
  for (const std::string& tap : taps_)
    taps.listen(tap,
                [&](const std::string& name, Tensor& value) { values[name] = with_heads(value).clone(); });
  Context context{.taps = &taps};
  model_.forward(input, {.logits = false}, context);
  return values;
}

Replacements ReplacementSource::resampled(std::span<const ReplacedInput> inputs) const {
  std::map<std::string, std::vector<Tensor>> parts;
  for (const ReplacedInput& replaced : inputs) {
    std::vector<const TensorMap*> donors;
    for (std::int64_t i = 0; i < std::ssize(references_); ++i) {
      const TensorMap* const donor = references_[static_cast<std::size_t>(i)];
      if (i != replaced.own && can_replace(*donor, replaced.input)) donors.push_back(donor);
    }
    if (donors.empty())
      throw Error("ablation: expected another reference text with as many tokens as text " +
                  std::to_string(replaced.number + 1) + ", to take values from, got none");
    const std::uint32_t word =
        RandomStream{options_.seed, 0}.word(static_cast<std::uint64_t>(replaced.number));
    for (const auto& [tap, value] : values_of(*donors[word % donors.size()])) parts[tap].push_back(value);
  }
  Replacements replacements;
  for (auto& [tap, values] : parts) {
    std::int64_t least = values.front().size(2);  // no input has more positions
    for (const Tensor& value : values) least = std::min(least, value.size(2));
    for (Tensor& value : values) value = slice(value, 2, 0, least);
    replacements[tap] = concat(values, 0);
  }
  return replacements;
}

void replace_component(const Replacements& by, const std::string& tap, const Tensor& value, std::int64_t row,
                       const Component& component, std::int64_t row_of_by) {
  const std::int64_t head = std::max<std::int64_t>(0, component.head);
  const Tensor all = with_heads(value), place = slice(slice(all, 0, row, row + 1), 1, head, head + 1);
  const auto found = by.find(tap);
  if (found == by.end()) return place.copy_from(Tensor::zeros(place.shape(), place.dtype()));
  Tensor own = slice(found->second, 1, head, head + 1);
  if (own.size(2) > place.size(2)) own = slice(own, 2, 0, place.size(2));
  const std::int64_t from = own.size(0) == 1 ? 0 : row_of_by;
  place.copy_from(broadcast_to(slice(own, 0, from, from + 1), place.shape()).contiguous());
}

}  // namespace heed::inspect
