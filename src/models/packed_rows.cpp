// Packs rows of tokens and unpacks the result.
#include "models/packed_rows.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "heed/autograd.h"
#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "heed/ops/shape.h"
#include "heed/threads.h"
#include "nn/stack_resume.h"

namespace heed {
namespace {

// Tokens of a pass for each thread, of models of 768 numbers; narrower ones take more. With fewer tokens,
// products unpack or read their weights for too few rows; with more, the activations of a layer leave the
// second-level cache between its products.
constexpr std::int64_t kTokensAtOnce = 256, kWidth = 768;

// The number of tokens of each row; empty if some row has padding elsewhere than at its end.
std::vector<std::int64_t> row_lengths(const Tensor& first, const Tensor& mask) {
  const std::int64_t rows = first.size(0), time = first.size(1);
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(rows), time);
  if (!mask.defined()) return lengths;
  if (mask.shape() != Shape{rows, time}) return {};
  const Tensor dense = mask.contiguous();
  const std::int64_t* seen = dense.data<std::int64_t>();
  for (std::int64_t& length : lengths) {
    const std::int64_t* padding = std::find(seen, seen + time, 0);
    const bool has_more = std::any_of(padding, seen + time, [](std::int64_t m) { return m != 0; });
    if (padding == seen || has_more) return {};
    length = padding - seen;
    seen += time;
  }
  return lengths;
}

// Whether all parts can tell packed rows apart, or need not.
bool takes_packed_rows(const Stack& stack) {
  const auto takes = [](const Sublayer& sublayer) {
    const auto* attention = sublayer.part.as<SelfAttention>();
    return attention != nullptr ? !attention->attention.sparse : sublayer.part.as<FeedForward>() != nullptr;
  };
  return std::all_of(stack.layers.begin(), stack.layers.end(), [&](const Layer& layer) {
    return std::all_of(layer.steps.begin(), layer.steps.end(), [&](const ResidualStep& step) {
      return std::all_of(step.sublayers.begin(), step.sublayers.end(), takes);
    });
  });
}

// Rows of a batch that follow one another, without their padding.
struct Group {
  std::int64_t first = 0;
  std::vector<std::int64_t> lengths = {};
  std::int64_t tokens = 0;
};

std::vector<Group> groups_of(const std::vector<std::int64_t>& lengths, std::int64_t width) {
  const std::int64_t most = kTokensAtOnce * std::max<std::int64_t>(kWidth / width, 1) * threads();
  std::vector<Group> groups;
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    if (groups.empty() || groups.back().tokens + lengths[row] > most)
      groups.push_back({.first = static_cast<std::int64_t>(row)});
    groups.back().lengths.push_back(lengths[row]);
    groups.back().tokens += lengths[row];
  }
  return groups;
}

// The group's rows of [B, T, ...] as [1, N, ...]; undefined stays undefined.
Tensor packed(const Tensor& x, const Group& group) {
  if (!x.defined()) return x;
  std::vector<Tensor> rows;
  for (std::int64_t i = 0; i < std::ssize(group.lengths); ++i) {
    const std::int64_t row = group.first + i;
    rows.push_back(slice(slice(x, 0, row, row + 1), 1, 0, group.lengths[static_cast<std::size_t>(i)]));
  }
  return concat(rows, 1);
}

// Where the tokens that are read are among those of the group.
std::vector<std::int64_t> packed_places(const std::vector<std::int64_t>& read, const Group& group) {
  std::vector<std::int64_t> places;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < group.lengths.size() && !read.empty(); begin += group.lengths[i++])
    places.push_back(begin + read[static_cast<std::size_t>(group.first) + i]);
  return places;
}

// [1, N, D] into the group's rows of [B, T, D].
void unpack(const Tensor& x, const Group& group, const Tensor& result) {
  std::int64_t next = 0;
  for (std::int64_t i = 0; i < std::ssize(group.lengths); ++i) {
    const std::int64_t row = group.first + i, length = group.lengths[static_cast<std::size_t>(i)];
    slice(slice(result, 0, row, row + 1), 1, 0, length).copy_from(slice(x, 1, next, next + length));
    next += length;
  }
}

// The position of each token in its row, [1, N].
PositionIds positions_in_rows(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> positions;
  for (const std::int64_t length : lengths) {
    for (std::int64_t t = 0; t < length; ++t) positions.push_back(t);
  }
  return PositionIds(Tensor::from(positions, {1, std::ssize(positions)}));
}

}  // namespace

Tensor encode_packed(const InputEmbeddings& embeddings, const Stack& stack, const ModelInput& input,
                     const Tensor& mask, bool causal, bool reads_padding, Context& context) {
  const bool as_it_is = gradients_enabled() || context.training || context.taps != nullptr ||
                        embeddings.frontend != nullptr || StackResume::of(stack.name) != nullptr ||
                        !takes_packed_rows(stack);
  if (as_it_is) return {};
  const std::vector<std::int64_t> lengths = row_lengths(input.first(), mask);
  const std::int64_t rows = std::ssize(lengths), time = input.first().size(1);
  const std::vector<Group> groups =
      groups_of(lengths, input.first().rank() == 3 ? input.first().size(2) : embeddings.tokens.table.size(1));
  const bool padded = std::any_of(lengths.begin(), lengths.end(), [=](std::int64_t n) { return n < time; });
  if (padded ? reads_padding && input.read.empty() : groups.size() < 2) return {};
  Tensor result;
  for (const Group& group : groups) {
    Pass pass(context);
    if (group.lengths.size() > 1) pass.lengths = group.lengths;
    pass.positions = positions_in_rows(group.lengths);
    pass.self.causal = causal;
    pass.read = packed_places(input.read, group);
    pass.name = stack.name;
    const ModelInput given{.ids = packed(input.ids, group),
                           .type_ids = packed(input.type_ids, group),
                           .embeddings = packed(input.embeddings, group)};
    const Tensor x = stack(embeddings(given, pass), pass);
    if (!result.defined())
      result = Tensor::zeros({rows, input.read.empty() ? time : 1, x.size(2)}, x.dtype());
    const std::int64_t end = group.first + std::ssize(group.lengths);
    if (input.read.empty()) {
      unpack(x, group, result);
    } else {
      slice(result, 0, group.first, end).copy_from(reshape(x, {end - group.first, 1, x.size(2)}));
    }
  }
  return result;
}

}  // namespace heed
