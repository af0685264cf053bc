// Fused operations by their plain formulas, made of elementary operations: what the kernels must equal, and
// what another backend can start from. Attention and rotary have theirs beside them.
#include <algorithm>
#include <limits>
#include <vector>

#include "heed/ops/activation.h"
#include "heed/ops/attention.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/loss.h"
#include "heed/ops/matmul.h"
#include "heed/ops/norm.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"

namespace heed {
namespace {

Tensor indices(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

// Subtracting any number of a slice from all of it changes no softmax, so the maximum needs no gradient.
Tensor below_max(const Tensor& x, int axis) { return x - max(x.detach(), axis, true); }

// products [B, H, N, R] as [B, H, T, S]: entry (t, s) is that of row(t, s) and of the bucket of t - s.
template <class Row>
Tensor spread(const Tensor& products, const std::vector<std::int64_t>& buckets, std::int64_t queries,
              std::int64_t keys, Row row) {
  const std::int64_t batch = products.size(0), heads = products.size(1), rows = products.size(3);
  std::vector<std::int64_t> places;
  for (std::int64_t t = 0; t < queries; ++t) {
    for (std::int64_t s = 0; s < keys; ++s)
      places.push_back(row(t, s) * rows + buckets[static_cast<std::size_t>(t - s + keys - 1)]);
  }
  const Tensor flat = reshape(products, {batch * heads, products.size(2) * rows});
  return reshape(gather(flat, 1, indices(places)), {batch, heads, queries, keys});
}

}  // namespace

Tensor layer_norm_by_formula(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const Tensor centered = x - mean(x, -1, true);
  const Tensor y = centered * rsqrt(mean(centered * centered, -1, true) + eps) * weight;
  return bias.defined() ? y + bias : y;
}

Tensor rms_norm_by_formula(const Tensor& x, const Tensor& weight, double eps, double offset) {
  return x * rsqrt(mean(x * x, -1, true) + eps) * (weight + offset);
}

Tensor gated_by_formula(const Tensor& gate, const Tensor& x, Activation activation) {
  return activate(gate, activation) * x;
}

Tensor linear_by_formula(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
                         WeightLayout layout) {
  const Tensor product = matmul(x, layout == WeightLayout::out_in ? transpose(weight, 0, 1) : weight);
  return activate(bias.defined() ? product + bias : product, activation);
}

Tensor softmax_by_formula(const Tensor& x, int axis) {
  const Tensor powers = exp(below_max(x, axis));
  return powers / sum(powers, axis, true);
}

Tensor log_softmax_by_formula(const Tensor& x, int axis) {
  const Tensor y = below_max(x, axis);
  return y - log(sum(exp(y), axis, true));
}

Tensor cross_entropy_by_formula(const Tensor& logits, const Tensor& targets,
                                const CrossEntropyOptions& options) {
  const std::int64_t vocab = logits.size(-1), rows = targets.numel();
  std::vector<std::int64_t> places = targets.to_vector<std::int64_t>();
  std::vector<double> counted;
  double count = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t& place = places[static_cast<std::size_t>(row)];
    counted.push_back(place == options.ignore_index ? 0 : 1);
    count += counted.back();
    place = row * vocab + (place == options.ignore_index ? 0 : place);
  }
  Tensor x = reshape(logits, {rows, vocab});
  if (options.logit_cap > 0) x = softcap(x, options.logit_cap);
  const Tensor largest = max(x.detach(), -1, true);
  const Tensor logsumexp = reshape(log(sum(exp(x - largest), -1, true)) + largest, {rows});
  const Tensor of_target = logsumexp - gather(reshape(x, {rows * vocab}), 0, indices(places));
  const Tensor of_all = logsumexp - mean(x, -1);
  const double e = options.label_smoothing;
  Tensor losses = of_target * (1 - e) + of_all * e + logsumexp * logsumexp * options.z_loss;
  losses = losses * Tensor::from(counted, {rows}).to(losses.dtype());
  if (options.reduction == Reduction::none) return reshape(losses, targets.shape());
  return options.reduction == Reduction::sum ? sum(losses) : sum(losses) * (1 / std::max(count, 1.0));
}

Tensor ctc_loss_by_formula(const Tensor& logits, const Tensor& labels, const Tensor& lengths,
                           const CtcOptions& options) {
  const std::int64_t batch = logits.size(0), vocab = logits.size(2);
  std::vector<Tensor> losses;
  for (std::int64_t b = 0; b < batch; ++b) {
    std::vector<std::int64_t> states{options.blank};
    for (const std::int64_t label : slice(labels, 0, b, b + 1).to_vector<std::int64_t>())
      if (label >= 0) states.insert(states.end(), {label, options.blank});
    const auto count = static_cast<std::int64_t>(states.size());
    // steps[i, j]: whether state j may follow state i in the next frame.
    const auto size = static_cast<std::size_t>(count);
    std::vector<double> allowed(size * size), first(size), last(size);
    for (std::int64_t j = 0; j < count; ++j) {
      const auto state = [&](std::int64_t i) { return states[static_cast<std::size_t>(i)]; };
      for (std::int64_t i = std::max<std::int64_t>(0, j - 2); i <= j; ++i)
        allowed[static_cast<std::size_t>(i * count + j)] = j - i < 2 || state(i) != state(j) ? 1 : 0;
      first[static_cast<std::size_t>(j)] = j < 2 ? 1 : 0;
      last[static_cast<std::size_t>(j)] = j >= count - 2 ? 1 : 0;
    }
    const auto constant = [&](const std::vector<double>& values) {
      return Tensor::from(values, {std::ssize(values) / count, count}).to(logits.dtype());
    };
    const Tensor row = reshape(slice(logits, 0, b, b + 1), {logits.size(1), vocab});
    const Tensor chances = gather(softmax_by_formula(row, 1), 1, indices(states));  // [T, count]
    const std::int64_t time =
        lengths.defined() ? slice(lengths, 0, b, b + 1).to_vector<std::int64_t>().front() : logits.size(1);
    Tensor ways = constant(first) * slice(chances, 0, 0, 1);
    for (std::int64_t t = 1; t < time; ++t)
      ways = matmul(ways, constant(allowed)) * slice(chances, 0, t, t + 1);
    const double labels_in_row = std::max(1.0, static_cast<double>(count / 2));
    const double factor =
        options.reduction == Reduction::mean ? 1.0 / (labels_in_row * static_cast<double>(batch)) : 1.0;
    losses.push_back(sum(log(sum(ways * constant(last)))) * -factor);
  }
  const Tensor rows = stack(losses, 0);
  return options.reduction == Reduction::none ? rows : sum(rows);
}

Tensor disentangled_bias_by_formula(const Tensor& c2p, const Tensor& p2c, const Tensor& buckets,
                                    const Tensor& present) {
  const std::int64_t queries = (c2p.defined() ? c2p : p2c).size(2);
  const std::int64_t keys = (p2c.defined() ? p2c : c2p).size(2);
  const std::vector<std::int64_t> bucket = buckets.to_vector<std::int64_t>();
  Tensor y;
  if (c2p.defined()) y = spread(c2p, bucket, queries, keys, [](std::int64_t t, std::int64_t) { return t; });
  if (p2c.defined()) {
    const Tensor term = spread(p2c, bucket, queries, keys, [](std::int64_t, std::int64_t s) { return s; });
    y = y.defined() ? y + term : term;
  }
  if (!present.defined()) return y;
  const std::int64_t batch = present.size(0);
  const std::vector<bool> seen = present.to_vector<bool>();
  std::vector<double> kept, added;  // by query and key
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t t = 0; t < queries; ++t) {
      const bool query = seen[static_cast<std::size_t>(b * keys + t)];
      for (std::int64_t s = 0; s < keys; ++s) {
        const bool key = seen[static_cast<std::size_t>(b * keys + s)];
        kept.push_back(query && key ? 1 : 0);
        added.push_back(query && !key ? -std::numeric_limits<double>::infinity() : 0);
      }
    }
  }
  const Shape shape{batch, 1, queries, keys};
  return y * Tensor::from(kept, shape).to(y.dtype()) + Tensor::from(added, shape).to(y.dtype());
}

}  // namespace heed
