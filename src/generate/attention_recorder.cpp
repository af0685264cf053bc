// Keeps what each step attended to, and collects it along a hypothesis.
#include "generate/strategies.h"

#include <algorithm>

#include "heed/error.h"
#include "heed/ops/shape.h"

namespace heed::generate {

AttentionRecorder::AttentionRecorder(const std::vector<std::string>& patterns, const Context& context)
    : taps_(context.taps), context_(context), active_(!patterns.empty()) {
  if (!active_) return;
  for (const std::string& pattern : patterns) {
    taps_.listen(pattern, [this](const std::string& name, Tensor& value) { keep(name, value); });
  }
  context_.taps = &taps_;
}

Tensor AttentionRecorder::step(Decoding& decoding, const Tensor& ids, std::span<const std::int64_t> lengths) {
  if (active_) steps_.emplace_back();
  const bool ragged =
      std::any_of(lengths.begin(), lengths.end(), [&](std::int64_t length) { return length != ids.size(1); });
  lengths_.clear();
  if (!ragged) return decoding.step(ids, context_).contiguous();
  lengths_.assign(lengths.begin(), lengths.end());
  return decoding.step_ragged(ids, lengths, context_).contiguous();
}

void AttentionRecorder::keep(const std::string& name, const Tensor& value) {
  if (value.rank() != 4) {
    throw Error("search: expected " + name + " to be attention [rows, heads, queries, keys], got " +
                value.str());
  }
  const Tensor last = Tensor::empty({value.size(0), value.size(1), value.size(3)});
  for (std::int64_t row = 0; row < value.size(0); ++row) {
    const std::int64_t at =
        lengths_.empty() ? value.size(2) - 1 : lengths_[static_cast<std::size_t>(row)] - 1;
    const Tensor query = slice(slice(value, 0, row, row + 1), 2, at, at + 1);
    slice(last, 0, row, row + 1).copy_from(reshape(query, {1, value.size(1), value.size(3)}));
  }
  steps_.back()[name] = last;
}

std::int64_t AttentionRecorder::extend(std::int64_t parent, std::int64_t row) {
  if (!active_) return kRoot;
  nodes_.push_back({parent, static_cast<std::int64_t>(steps_.size()) - 1, row});
  return static_cast<std::int64_t>(nodes_.size()) - 1;
}

TensorMap AttentionRecorder::collect(std::int64_t hypothesis) const {
  TensorMap collected;
  if (!active_ || hypothesis == kRoot) return collected;
  std::vector<Node> chain;
  for (std::int64_t node = hypothesis; node != kRoot; node = chain.back().parent) {
    chain.push_back(nodes_[static_cast<std::size_t>(node)]);
  }
  std::reverse(chain.begin(), chain.end());
  const auto length = static_cast<std::int64_t>(chain.size());
  for (const auto& last : steps_[static_cast<std::size_t>(chain.back().step)]) {
    const std::string& name = last.first;
    const std::int64_t heads = last.second.size(1);
    std::int64_t keys = 0;  // longer rows and their padding may have been removed
    for (const Node& node : chain)
      keys = std::max(keys, steps_[static_cast<std::size_t>(node.step)].at(name).size(2));
    Tensor all = Tensor::zeros({heads, length, keys});
    for (std::int64_t t = 0; t < length; ++t) {
      const Node& node = chain[static_cast<std::size_t>(t)];
      const Tensor& step = steps_[static_cast<std::size_t>(node.step)].at(name);
      slice(slice(all, 1, t, t + 1), 2, 0, step.size(2))
          .copy_from(reshape(slice(step, 0, node.row, node.row + 1), {heads, 1, step.size(2)}));
    }
    collected[name] = all;
  }
  return collected;
}

}  // namespace heed::generate
