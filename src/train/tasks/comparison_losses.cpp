// Losses of vectors and of rerankers, and cached gradients.
#include "train/tasks/comparison_losses.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "heed/autograd.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/loss.h"
#include "heed/ops/matmul.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"
#include "heed/random.h"
#include "ops/reduce.h"
#include "ops/softplus.h"

namespace heed {
namespace {

constexpr double kLeastNorm = 1e-12;

Tensor unit_rows(const Tensor& x) { return normalize_rows(x, kLeastNorm); }

Tensor cosines(const Tensor& a, const Tensor& b) { return sum(unit_rows(a) * unit_rows(b), 1); }

// The cross-entropy of rows whose target is the column of the same number.
Tensor diagonal_loss(const Tensor& logits, double label_smoothing) {
  std::vector<std::int64_t> targets(static_cast<std::size_t>(logits.size(0)));
  std::iota(targets.begin(), targets.end(), std::int64_t{0});
  return cross_entropy(logits, Tensor::from(targets, {logits.size(0)}),
                       {.label_smoothing = label_smoothing, .reduction = Reduction::sum});
}

// The ranks of logits, from 1: of equal ones, the first is first.
std::vector<std::size_t> ranks_of(std::span<const float> logits) {
  std::vector<std::size_t> order(logits.size()), ranks(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  for (std::size_t i = 0; i < order.size(); ++i) ranks[order[i]] = i + 1;
  return ranks;
}

// 1 / log2(1 + rank).
double discount(std::size_t rank) { return 1 / std::log2(1 + static_cast<double>(rank)); }

// G of lambda_loss().
std::vector<double> normalized_gains(std::span<const float> labels) {
  std::vector<double> gains;
  for (const float label : labels) gains.push_back(std::exp2(static_cast<double>(label)) - 1);
  std::vector<double> sorted = gains;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  double ideal = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) ideal += sorted[i] * discount(i + 1);
  for (double& gain : gains) gain /= std::max(ideal, 1e-10);
  return gains;
}

// The pairs (i, j) of a list with label_i > label_j.
std::vector<std::pair<std::size_t, std::size_t>> unequal_pairs(std::span<const float> labels) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    for (std::size_t j = 0; j < labels.size(); ++j) {
      if (labels[i] > labels[j]) pairs.emplace_back(i, j);
    }
  }
  return pairs;
}

// Calls `handle` with the first document of each query and how many it has.
template <class Handle>
void for_each_list(std::span<const std::int64_t> counts, const Handle& handle) {
  std::int64_t first = 0;
  for (const std::int64_t count : counts) {
    handle(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    first += count;
  }
}

Tensor as_tensor(std::span<const float> numbers) {
  return Tensor::from(std::vector<float>(numbers.begin(), numbers.end()), {std::ssize(numbers)});
}

Tensor chosen_of(const Tensor& numbers, const std::vector<std::int64_t>& rows) {
  return gather(numbers, 0, Tensor::from(rows, {std::ssize(rows)}));
}

}  // namespace

Tensor multiple_negatives_loss(const Tensor& anchors, const Tensor& texts, const MultipleNegatives& options) {
  const Tensor logits = matmul(unit_rows(anchors), transpose(unit_rows(texts), 0, 1)) * options.scale;
  const Tensor forward = diagonal_loss(logits, options.label_smoothing);
  if (!options.symmetric) return forward;
  const Tensor positives = slice(logits, 1, 0, anchors.size(0));
  const Tensor back = diagonal_loss(transpose(positives, 0, 1).contiguous(), options.label_smoothing);
  return (forward + back) * 0.5;
}

Tensor cosent_loss(const Tensor& a, const Tensor& b, std::span<const float> labels, double scale) {
  std::vector<std::int64_t> less, more;
  for (const auto& [i, j] : unequal_pairs(labels)) {
    more.push_back(static_cast<std::int64_t>(i));
    less.push_back(static_cast<std::int64_t>(j));
  }
  const Tensor cos = cosines(a, b);
  // log(1 + sum exp(x)) is the cross-entropy of (0, x...) with the 0 as target.
  const Tensor logits =
      concat({Tensor::zeros({1}), (chosen_of(cos, less) - chosen_of(cos, more)) * scale}, 0);
  return cross_entropy(reshape(logits, {1, logits.numel()}), Tensor::zeros({1}, DType::i64),
                       {.reduction = Reduction::sum}) *
         static_cast<double>(labels.size());
}

Tensor cosine_loss(const Tensor& a, const Tensor& b, std::span<const float> labels) {
  const Tensor difference = cosines(a, b) - as_tensor(labels);
  return sum(difference * difference);
}

Tensor matryoshka_loss(const Tensor& vectors, std::span<const std::int64_t> sizes,
                       const std::function<Tensor(const Tensor&)>& loss) {
  if (sizes.empty()) return loss(vectors);
  Tensor total;
  for (const std::int64_t size : sizes) {
    const Tensor one = loss(slice(vectors, 1, 0, size));
    total = total.defined() ? total + one : one;
  }
  return total;
}

Tensor pair_loss(const Tensor& logits, std::span<const float> labels) {
  return sum(softplus(logits) - logits * as_tensor(labels));
}

Tensor list_net_loss(const Tensor& logits, std::span<const float> labels,
                     std::span<const std::int64_t> counts) {
  const Tensor wanted = as_tensor(labels);
  std::vector<Tensor> losses;
  for_each_list(counts, [&](std::size_t first, std::size_t count) {
    const auto begin = static_cast<std::int64_t>(first), end = begin + static_cast<std::int64_t>(count);
    const Tensor found = log_softmax(slice(logits, 0, begin, end), 0);
    losses.push_back(reshape(neg(sum(softmax(slice(wanted, 0, begin, end), 0) * found)), {1}));
  });
  return sum(concat(losses, 0));
}

Tensor lambda_loss(const Tensor& logits, std::span<const float> labels,
                   std::span<const std::int64_t> counts) {
  constexpr double kMu = 10;
  const std::vector<float> values = logits.detach().to_vector<float>();
  std::vector<std::int64_t> more, less;
  std::vector<float> weights;
  for_each_list(counts, [&](std::size_t first, std::size_t count) {
    const std::span<const float> own = labels.subspan(first, count);
    const std::vector<std::size_t> ranks = ranks_of(std::span(values).subspan(first, count));
    const std::vector<double> gains = normalized_gains(own);
    for (const auto& [i, j] : unequal_pairs(own)) {
      const std::size_t apart = ranks[i] > ranks[j] ? ranks[i] - ranks[j] : ranks[j] - ranks[i];
      const double by_distance = discount(apart) - discount(apart + 1),
                   by_rank = std::abs(discount(ranks[i]) - discount(ranks[j]));
      more.push_back(static_cast<std::int64_t>(first + i));
      less.push_back(static_cast<std::int64_t>(first + j));
      weights.push_back(
          static_cast<float>((kMu * by_distance + by_rank) * std::abs(gains[i] - gains[j]) / std::log(2.0)));
    }
  });
  return sum(softplus(chosen_of(logits, less) - chosen_of(logits, more)) * as_tensor(weights));
}

std::int64_t count_unequal(std::span<const float> labels, std::span<const std::int64_t> counts) {
  std::int64_t pairs = 0;
  for_each_list(counts, [&](std::size_t first, std::size_t count) {
    pairs += std::ssize(unequal_pairs(labels.subspan(first, count)));
  });
  return pairs;
}

Tensor cached_loss(std::size_t batches, const std::function<Tensor(std::size_t)>& vectors,
                   const std::function<Tensor(const Tensor&)>& loss, Generator* generator) {
  if (batches == 1) return loss(vectors(0));
  std::vector<Tensor> parts;
  std::vector<std::uint64_t> positions;
  {
    const NoGradients off;
    for (std::size_t i = 0; i < batches; ++i) {
      if (generator != nullptr) positions.push_back(generator->position());
      parts.push_back(vectors(i));
    }
  }
  Tensor all = concat(parts, 0);
  all.set_requires_grad();
  const Tensor value = loss(all);
  value.backward();
  Tensor result = value.detach();
  std::int64_t row = 0;
  for (std::size_t i = 0; i < batches; ++i) {
    const Tensor gradient = slice(all.grad(), 0, row, row + parts[i].size(0));
    row += parts[i].size(0);
    if (generator != nullptr) generator->seek(positions[i]);
    const Tensor again = vectors(i);
    if (i + 1 < batches) {
      again.backward(gradient);
    } else {
      record(result, "cached_loss", {again},
             [gradient](const Tensor& dy) { return std::vector<Tensor>{gradient * dy.item()}; });
    }
  }
  return result;
}

}  // namespace heed
