// Stacks of layers, and their state while decoding.
#include "heed/nn/stack.h"

#include <algorithm>
#include <numeric>

#include "heed/nn/linear.h"
#include "heed/ops/elementwise.h"

namespace heed {
namespace {

Tensor run(const Sublayer& sublayer, const Tensor& x, Pass& pass, PartState* state) {
  Tensor y = sublayer.part(sublayer.norm_before ? (*sublayer.norm_before)(x) : x, pass, state);
  if (sublayer.norm_after) y = (*sublayer.norm_after)(y);
  if (sublayer.multiplier != 1.0) y = y * sublayer.multiplier;
  return apply_dropout(y, sublayer.dropout, pass.context);
}

}  // namespace

ResidualStep pre_norm(std::string name, Norm norm, Part part, double dropout) {
  return {.sublayers = {{.name = std::move(name),
                         .norm_before = std::move(norm),
                         .part = std::move(part),
                         .dropout = dropout}}};
}

ResidualStep post_norm(std::string name, Norm norm, Part part, double dropout) {
  return {.sublayers = {{.name = std::move(name), .part = std::move(part), .dropout = dropout}},
          .norm_sum = std::move(norm)};
}

Tensor Stack::operator()(Tensor x, Pass& pass, StackState* state) const {
  const std::int64_t time = x.size(1);
  if (state != nullptr) state->begin(pass, time);
  pass.name = name;
  pass.tap("embed", x);
  std::size_t part = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    pass.context.check_stop();
    const std::string layer = name + ".layers." + std::to_string(i);
    for (const ResidualStep& step : layers[i].steps) {
      if (step.norm_input) x = (*step.norm_input)(x);
      Tensor sum;
      for (const Sublayer& sublayer : step.sublayers) {
        pass.name = layer + "." + sublayer.name;
        const Tensor y = run(sublayer, x, pass, state != nullptr ? state->parts_[part].get() : nullptr);
        sum = sum.defined() ? y + sum : y;
        ++part;
      }
      x = step.norm_sum ? step.norm_sum->of_sum(sum, x) : sum + x;
    }
    pass.name = layer;
    pass.tap("out", x);
  }
  if (state != nullptr) state->advance(pass, time);
  return final_norm ? (*final_norm)(x) : x;
}

StackState::StackState(const Stack& stack, std::int64_t rows, const Tensor& memory)
    : sources_(static_cast<std::size_t>(rows)), history_(static_cast<std::size_t>(rows)) {
  std::iota(sources_.begin(), sources_.end(), std::int64_t{0});
  for (const Layer& layer : stack.layers) {
    for (const ResidualStep& step : layer.steps) {
      for (const Sublayer& sublayer : step.sublayers) parts_.push_back(sublayer.part.make_state(memory));
    }
  }
}

PositionIds StackState::positions() const {
  if (lengths_.each.empty()) return PositionIds(lengths_.longest);
  return PositionIds(Tensor::from(lengths_.each, {rows()}));
}

void StackState::begin(Pass& pass, std::int64_t time) const {
  pass.past = lengths_;
  if (lengths_.each.empty()) return;
  std::vector<std::int64_t> ends = lengths_.each;
  for (std::int64_t& end : ends) end += time;
  pass.self.query_offsets = Tensor::from(lengths_.each, {rows()});
  pass.self.key_lengths = Tensor::from(ends, {rows()});
}

void StackState::advance(const Pass& pass, std::int64_t time) {
  if (!pass.lengths.empty() && lengths_.each.empty()) lengths_.each.assign(history_.size(), lengths_.longest);
  lengths_.longest += time;
  for (std::size_t row = 0; row < history_.size(); ++row) {
    const std::int64_t count = pass.lengths.empty() ? time : pass.lengths[row];
    for (std::int64_t t = 0; t < count; ++t) history_[row].push_back(tokens_seen_++);
    if (!lengths_.each.empty()) lengths_.each[row] += count;
  }
  if (!lengths_.each.empty())
    lengths_.longest = *std::max_element(lengths_.each.begin(), lengths_.each.end());
}

void StackState::reorder(std::span<const std::int64_t> rows) {
  RowReorder order{.from = {rows.begin(), rows.end()}, .old_rows = this->rows()};
  std::vector<std::vector<std::int64_t>> history;
  std::vector<std::int64_t> sources;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows[row] < 0 || rows[row] >= order.old_rows) {
      throw Error("decoding: expected rows below " + std::to_string(order.old_rows) + ", got " +
                  std::to_string(rows[row]));
    }
    const auto from = static_cast<std::size_t>(rows[row]);
    const std::vector<std::int64_t>& taken = history_[from];
    const bool old = row < history_.size();
    const auto common =
        !old ? taken.begin()
             : std::mismatch(taken.begin(), taken.end(), history_[row].begin(), history_[row].end()).first;
    order.common.push_back(common - taken.begin());
    order.lengths.push_back(lengths_.of(rows[row]));
    order.same_source.push_back(old && sources_[row] == sources_[from]);
    history.push_back(taken);
    sources.push_back(sources_[from]);
  }
  for (const auto& part : parts_) {
    if (part != nullptr) part->reorder(order);
  }
  history_ = std::move(history);
  sources_ = std::move(sources);
  if (lengths_.each.empty() || rows.empty()) return;
  lengths_.each = std::move(order.lengths);
  lengths_.longest = *std::max_element(lengths_.each.begin(), lengths_.each.end());
}

std::size_t StackState::bytes() const {
  std::size_t sum = 0;
  for (const auto& part : parts_) sum += part != nullptr ? part->bytes() : 0;
  return sum;
}

}  // namespace heed
