// Cross-entropy, a row of logits at a time. With l = logsumexp and the smoothed target q (1 - eps at the
// target plus eps / V everywhere), the loss is l - q . logits + z l^2 and its gradient p (1 + 2 z l) - q.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/loss.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/cpu/exp-inl.h"
#include "kernels/loss.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class T>
struct RowLoss {
  double loss;
  T logsumexp;
};

/// The largest logit, the target's, and the sum of distances from the largest (0 where nothing asks for it).
template <class T>
struct RowShape {
  T largest;
  T target;
  T distance;
};

template <class T>
HWY_INLINE RowShape<T> row_shape(const T* x, int64_t target, int64_t vocab,
                                 const CrossEntropyOptions& options) {
  RowShape<T> row{row_max(x, vocab), x[target], T(0)};
  if (options.smoothing == 0) return row;
  const Vec<T> shift = broadcast(row.largest);
  const auto above = [shift](auto acc, auto v) HWY_ATTR { return hn::Add(acc, hn::Sub(shift, v)); };
  const auto plus = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  row.distance = total<T>(fold<T>(vocab, broadcast(T(0)), row.largest, above, plus, x));
  return row;
}

/// From `sum` of exp(x - largest), with distances from the largest logit: exact where the logits are close,
/// whatever their size.
template <class T>
HWY_INLINE RowLoss<T> loss_of(const RowShape<T>& row, T sum, int64_t vocab,
                              const CrossEntropyOptions& options) {
  const double log_sum = std::log(static_cast<double>(sum));
  const double lse = static_cast<double>(row.largest) + log_sum;
  double loss = (1 - options.smoothing) *
                (static_cast<double>(row.largest) - static_cast<double>(row.target) + log_sum);
  if (options.smoothing != 0) {
    loss += options.smoothing * (log_sum + static_cast<double>(row.distance) / static_cast<double>(vocab));
  }
  loss += options.z_loss * lse * lse;
  return {loss, static_cast<T>(lse)};
}

template <class T>
HWY_INLINE RowLoss<T> row_loss(const T* x, int64_t target, int64_t vocab,
                               const CrossEntropyOptions& options) {
  const RowShape<T> row = row_shape(x, target, vocab, options);
  const Vec<T> shift = broadcast(row.largest);
  const auto gather = [shift](auto acc, auto v)
                          HWY_ATTR { return hn::Add(acc, exp_nonpositive(hn::Sub(v, shift))); };
  const auto plus = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  const T sum =
      total<T>(fold<T>(vocab, broadcast(T(0)), -std::numeric_limits<T>::infinity(), gather, plus, x));
  return loss_of(row, sum, vocab, options);
}

/// The loss, and the gradient in place of the logits: it holds their exponentials in between, so that each
/// is computed once.
template <class T>
HWY_INLINE double row_in_place(T* x, int64_t target, T scale, int64_t vocab,
                               const CrossEntropyOptions& options) {
  const RowShape<T> row = row_shape<T>(x, target, vocab, options);
  const T sum = exp_row<T>(x, x, vocab, row.largest);
  const RowLoss<T> result = loss_of(row, sum, vocab, options);
  const double z_factor = 1 + 2 * options.z_loss * static_cast<double>(result.logsumexp);
  const Vec<T> factor =
      broadcast(static_cast<T>(static_cast<double>(scale) * z_factor / static_cast<double>(sum)));
  const double each = options.smoothing / static_cast<double>(vocab);
  const Vec<T> level = broadcast(static_cast<T>(static_cast<double>(scale) * each));
  map_range<T>(
      0, vocab, x, [=](auto e) HWY_ATTR { return hn::MulSub(e, factor, level); }, static_cast<const T*>(x));
  x[target] -= static_cast<T>(static_cast<double>(scale) * (1 - options.smoothing));
  return result.loss;
}

/// dx = scale * (softmax(x) * (1 + 2 z lse) - q); dx may be x.
template <class T>
HWY_INLINE void row_gradient(const T* x, int64_t target, T lse, T scale, T* dx, int64_t vocab,
                             const CrossEntropyOptions& options) {
  const double z_factor = 1 + 2 * options.z_loss * static_cast<double>(lse);
  const Vec<T> shift = broadcast(lse);
  const Vec<T> factor = broadcast(static_cast<T>(static_cast<double>(scale) * z_factor));
  const double each = options.smoothing / static_cast<double>(vocab);
  const Vec<T> level = broadcast(static_cast<T>(static_cast<double>(scale) * each));
  map_range<T>(
      0, vocab, dx, [=](auto v) HWY_ATTR { return hn::MulSub(exp_of(hn::Sub(v, shift)), factor, level); }, x);
  dx[target] -= static_cast<T>(static_cast<double>(scale) * (1 - options.smoothing));
}

/// Losses in double, one per row, so that their sum can be taken in order.
template <class T>
struct RowSums {
  std::vector<double> losses;
  explicit RowSums(const CrossEntropy<T>& args) : losses(static_cast<std::size_t>(args.rows)) {}
  CrossEntropySum total(const CrossEntropy<T>& args) const {
    CrossEntropySum result;
    for (int64_t r = 0; r < args.rows; ++r) {
      if (args.targets[r] == args.options.ignore_index) continue;
      result.loss += losses[static_cast<std::size_t>(r)];
      ++result.count;
    }
    return result;
  }
};

template <class T>
CrossEntropySum cross_entropy(const CrossEntropy<T>& args, T* losses, T* logsumexp) {
  const int64_t *targets = args.targets, vocab = args.vocab;
  RowSums<T> sums(args);
  parallel_for(args.rows, row_grain(4 * vocab), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r) {
      const bool counts = targets[r] != args.options.ignore_index;
      const RowLoss<T> row =
          counts ? row_loss(args.logits + r * vocab, targets[r], vocab, args.options) : RowLoss<T>{0, 0};
      sums.losses[static_cast<std::size_t>(r)] = row.loss;
      if (losses != nullptr) losses[r] = static_cast<T>(row.loss);
      if (logsumexp != nullptr) logsumexp[r] = row.logsumexp;
    }
  });
  return sums.total(args);
}

template <class T>
void cross_entropy_backward(const CrossEntropy<T>& args, const T* logsumexp, const T* dlosses, T* dlogits) {
  const int64_t *targets = args.targets, vocab = args.vocab;
  parallel_for(args.rows, row_grain(2 * vocab), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r) {
      T* dx = dlogits + r * vocab;
      if (targets[r] == args.options.ignore_index) {
        std::fill(dx, dx + vocab, T(0));
      } else {
        row_gradient(args.logits + r * vocab, targets[r], logsumexp[r], dlosses[r], dx, vocab, args.options);
      }
    }
  });
}

template <class T>
CrossEntropySum cross_entropy_in_place(const CrossEntropy<T>& args, T* logits, T scale) {
  const int64_t *targets = args.targets, vocab = args.vocab;
  RowSums<T> sums(args);
  parallel_for(args.rows, row_grain(4 * vocab), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r) {
      T* x = logits + r * vocab;
      if (targets[r] == args.options.ignore_index) {
        std::fill(x, x + vocab, T(0));
        continue;
      }
      sums.losses[static_cast<std::size_t>(r)] = row_in_place(x, targets[r], scale, vocab, args.options);
    }
  });
  return sums.total(args);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(cross_entropy);
HEED_EXPORT(cross_entropy_backward);
HEED_EXPORT(cross_entropy_in_place);

template <class T>
CrossEntropySum cross_entropy(const CrossEntropy<T>& args, T* losses, T* logsumexp) {
  return HEED_DISPATCH(cross_entropy, T)(args, losses, logsumexp);
}
template <class T>
void cross_entropy_backward(const CrossEntropy<T>& args, const T* logsumexp, const T* dlosses, T* dlogits) {
  HEED_DISPATCH(cross_entropy_backward, T)(args, logsumexp, dlosses, dlogits);
}
template <class T>
CrossEntropySum cross_entropy_in_place(const CrossEntropy<T>& args, T* logits, T scale) {
  return HEED_DISPATCH(cross_entropy_in_place, T)(args, logits, scale);
}

#define HEED_INSTANTIATE(T)                                                             \
  template CrossEntropySum cross_entropy(const CrossEntropy<T>&, T*, T*);               \
  template void cross_entropy_backward(const CrossEntropy<T>&, const T*, const T*, T*); \
  template CrossEntropySum cross_entropy_in_place(const CrossEntropy<T>&, T*, T);
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(double)

}  // namespace heed::kernels
#endif
