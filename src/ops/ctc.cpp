// Checks of labels and lengths, the loss of each row, and its gradient.
#include "heed/ops/loss.h"

#include <algorithm>
#include <cmath>

#include "heed/autograd.h"
#include "heed/error.h"
#include "kernels/loss.h"

namespace heed {
namespace {

// The labels of each row that count, first in the row, and how many they are; the frames that count.
struct Alignment {
  Tensor labels, counts, lengths;
};

Alignment checked(const Tensor& logits, const Tensor& labels, const Tensor& lengths, std::int64_t blank) {
  const bool rows =
      logits.rank() == 3 && labels.rank() == 2 && labels.dtype() == DType::i64 &&
      labels.size(0) == logits.size(0) &&
      (!lengths.defined() || (lengths.dtype() == DType::i64 && lengths.shape() == Shape{logits.size(0)}));
  if (!rows) {
    throw Error("ctc_loss: expected logits [B, T, V], labels i64 [B, S] and lengths i64 [B], got " +
                logits.str() + ", " + labels.str() + " and " + lengths.str());
  }
  const std::int64_t batch = logits.size(0), time = logits.size(1), vocab = logits.size(2);
  if (blank < 0 || blank >= vocab) {
    throw Error("ctc_loss: expected a blank in [0, " + std::to_string(vocab) + "), got " +
                std::to_string(blank));
  }
  const std::int64_t most = labels.size(1);
  Alignment kept{Tensor::zeros({batch, most}, DType::i64), Tensor::zeros({batch}, DType::i64),
                 lengths.defined() ? lengths.contiguous()
                                   : Tensor::full({batch}, static_cast<double>(time), DType::i64)};
  const Tensor dense = labels.contiguous();
  for (std::int64_t b = 0; b < batch; ++b) {
    std::int64_t& count = kept.counts.data<std::int64_t>()[b];
    for (std::int64_t s = 0; s < most; ++s) {
      const std::int64_t label = dense.data<std::int64_t>()[b * most + s];
      if (label >= vocab) {
        throw Error("ctc_loss: expected labels below " + std::to_string(vocab) + ", got " +
                    std::to_string(label));
      }
      if (label >= 0) kept.labels.data<std::int64_t>()[b * most + count++] = label;
    }
    const std::int64_t length = kept.lengths.data<std::int64_t>()[b];
    if (length < 0 || length > time) {
      throw Error("ctc_loss: expected lengths in [0, " + std::to_string(time) + "], got " +
                  std::to_string(length));
    }
  }
  return kept;
}

// What the loss of each row is multiplied by in the result: 0 for rows without an alignment that are not to
// count.
std::vector<double> row_factors(const Alignment& a, const std::vector<double>& losses,
                                const CtcOptions& options) {
  std::vector<double> factors(losses.size(), 1.0);
  for (std::size_t b = 0; b < losses.size(); ++b) {
    const auto count = static_cast<double>(std::max<std::int64_t>(1, a.counts.data<std::int64_t>()[b]));
    if (options.reduction == Reduction::mean) factors[b] = 1.0 / (count * static_cast<double>(losses.size()));
    if (options.zero_infinity && std::isinf(losses[b])) factors[b] = 0.0;
  }
  return factors;
}

// What backward keeps, beside logits and alignment.
struct Recursion {
  std::vector<double> alphas, normalizers, losses;
  kernels::CtcKept kept() { return {alphas.data(), normalizers.data(), losses.data()}; }
};

template <class T>
kernels::Ctc<T> arguments(const Tensor& logits, const Alignment& a, std::int64_t blank) {
  return {logits.data<T>(),
          a.labels.data<std::int64_t>(),
          a.counts.data<std::int64_t>(),
          a.lengths.data<std::int64_t>(),
          logits.size(0),
          logits.size(1),
          logits.size(2),
          a.labels.size(1),
          blank};
}

}  // namespace

Tensor ctc_loss(const Tensor& logits, const Tensor& labels, const Tensor& lengths,
                const CtcOptions& options) {
  const Alignment alignment = checked(logits, labels, lengths, options.blank);
  const Tensor input = logits.contiguous();
  const std::int64_t batch = logits.size(0), frames = batch * logits.size(1);
  const auto recursion = std::make_shared<Recursion>();
  recursion->alphas.resize(static_cast<std::size_t>(frames * (2 * labels.size(1) + 1)));
  recursion->normalizers.resize(static_cast<std::size_t>(frames));
  recursion->losses.resize(static_cast<std::size_t>(batch));
  dispatch_float("ctc_loss", logits.dtype(), [&]<class T>() {
    kernels::ctc_loss(arguments<T>(input, alignment, options.blank), recursion->kept());
  });
  const std::vector<double> factors = row_factors(alignment, recursion->losses, options);
  std::vector<double> losses(factors.size());
  double total = 0;
  for (std::size_t b = 0; b < losses.size(); ++b) {
    losses[b] = factors[b] == 0 ? 0.0 : factors[b] * recursion->losses[b];
    total += losses[b];
  }
  const bool per_row = options.reduction == Reduction::none;
  Tensor y =
      per_row ? Tensor::from(losses, {batch}).to(logits.dtype()) : Tensor::scalar(total, logits.dtype());
  if (!needs_gradient({logits})) return y;
  record(y, "ctc_loss", {input},
         [logits = input.detach(), alignment, recursion, factors, per_row,
          blank = options.blank](const Tensor& dy) {
           std::vector<double> dlosses = per_row ? dy.to(DType::f64).to_vector<double>()
                                                 : std::vector<double>(factors.size(), dy.item());
           for (std::size_t b = 0; b < factors.size(); ++b) dlosses[b] *= factors[b];
           Tensor dx = Tensor::empty(logits.shape(), logits.dtype());
           dispatch_float("ctc_loss", logits.dtype(), [&]<class T>() {
             kernels::ctc_loss_backward(arguments<T>(logits, alignment, blank), recursion->kept(),
                                        dlosses.data(), dx.data<T>());
           });
           return std::vector<Tensor>{dx};
         });
  return y;
}

}  // namespace heed
