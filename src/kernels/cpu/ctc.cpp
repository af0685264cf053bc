// CTC in plain loops, in double: its recursions over a few hundred frames cost little beside the model that
// made the logits. A row is computed by one thread.
#include "kernels/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "heed/threads.h"

namespace heed::kernels {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

double log_sum(double a, double b) {
  const double most = std::max(a, b);
  return most == kNone ? kNone : most + std::log1p(std::exp(std::min(a, b) - most));
}

// One row: its states, and the logarithms of the probabilities of their classes.
template <class T>
struct Row {
  const T* logits;             // [time, vocab]
  const double* normalizers;   // [time]
  const std::int64_t* labels;  // [count]
  std::int64_t count, length, vocab, blank;

  std::int64_t states() const { return 2 * count + 1; }
  std::int64_t class_of(std::int64_t s) const { return s % 2 == 0 ? blank : labels[s / 2]; }
  /// Whether a way leads from state s - 2 to s: two labels that differ.
  bool skips(std::int64_t s) const { return s >= 2 && class_of(s) != class_of(s - 2); }
  double log_probability(std::int64_t t, std::int64_t s) const {
    return static_cast<double>(logits[t * vocab + class_of(s)]) - normalizers[t];
  }
};

template <class T>
Row<T> row_of(const Ctc<T>& a, const CtcKept& kept, std::int64_t b) {
  return {a.logits + b * a.time * a.vocab,
          kept.normalizers + b * a.time,
          a.labels + b * a.most,
          a.counts[b],
          a.lengths[b],
          a.vocab,
          a.blank};
}

template <class T>
double log_normalizer(const T* logits, std::int64_t vocab) {
  const auto most = static_cast<double>(*std::max_element(logits, logits + vocab));
  double sum = 0;
  for (std::int64_t v = 0; v < vocab; ++v) sum += std::exp(static_cast<double>(logits[v]) - most);
  return most + std::log(sum);
}

// The loss of a row; fills alphas [length, width].
template <class T>
double forward(const Row<T>& row, double* alphas, std::int64_t width) {
  const std::int64_t states = row.states();
  if (row.length == 0) return row.count == 0 ? 0.0 : -kNone;
  std::fill_n(alphas, row.length * width, kNone);
  for (std::int64_t s = 0; s < std::min<std::int64_t>(2, states); ++s) alphas[s] = row.log_probability(0, s);
  for (std::int64_t t = 1; t < row.length; ++t) {
    const double* before = alphas + (t - 1) * width;
    double* now = alphas + t * width;
    for (std::int64_t s = 0; s < states; ++s) {
      double ways = before[s];
      if (s >= 1) ways = log_sum(ways, before[s - 1]);
      if (row.skips(s)) ways = log_sum(ways, before[s - 2]);
      now[s] = ways == kNone ? kNone : ways + row.log_probability(t, s);
    }
  }
  const double* last = alphas + (row.length - 1) * width;
  return -(states > 1 ? log_sum(last[states - 1], last[states - 2]) : last[0]);
}

// dlogits [time, vocab] = scale * (softmax - the probability of each class in a frame, given the labels).
template <class T>
void backward(const Row<T>& row, const double* alphas, std::int64_t width, double loss, double scale,
              T* dlogits) {
  const std::int64_t states = row.states();
  std::vector<double> betas(static_cast<std::size_t>(states), kNone), next, posterior;
  for (std::int64_t t = row.length - 1; t >= 0; --t) {
    // beta of a state: of all ways from it to the end, its own frame excluded.
    next = betas;
    const auto after = [&](std::int64_t s) {
      return s < states ? next[static_cast<std::size_t>(s)] + row.log_probability(t + 1, s) : kNone;
    };
    posterior.assign(static_cast<std::size_t>(row.vocab), 0.0);
    for (std::int64_t s = 0; s < states; ++s) {
      double& beta = betas[static_cast<std::size_t>(s)];
      if (t == row.length - 1) {
        beta = s >= states - 2 ? 0.0 : kNone;
      } else {
        beta = log_sum(after(s), after(s + 1));
        if (s + 2 < states && row.skips(s + 2)) beta = log_sum(beta, after(s + 2));
      }
      posterior[static_cast<std::size_t>(row.class_of(s))] += std::exp(alphas[t * width + s] + beta + loss);
    }
    for (std::int64_t v = 0; v < row.vocab; ++v) {
      const double p = std::exp(static_cast<double>(row.logits[t * row.vocab + v]) - row.normalizers[t]);
      dlogits[t * row.vocab + v] = static_cast<T>(scale * (p - posterior[static_cast<std::size_t>(v)]));
    }
  }
}

}  // namespace

template <class T>
void ctc_loss(const Ctc<T>& a, const CtcKept& kept) {
  const std::int64_t width = 2 * a.most + 1;
  parallel_for(a.batch, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      for (std::int64_t t = 0; t < a.lengths[b]; ++t)
        kept.normalizers[b * a.time + t] = log_normalizer(a.logits + (b * a.time + t) * a.vocab, a.vocab);
      kept.losses[b] = forward(row_of(a, kept, b), kept.alphas + b * a.time * width, width);
    }
  });
}

template <class T>
void ctc_loss_backward(const Ctc<T>& a, const CtcKept& kept, const double* dlosses, T* dlogits) {
  const std::int64_t width = 2 * a.most + 1;
  parallel_for(a.batch, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      T* out = dlogits + b * a.time * a.vocab;
      std::fill_n(out, a.time * a.vocab, T{0});
      if (dlosses[b] != 0)
        backward(row_of(a, kept, b), kept.alphas + b * a.time * width, width, kept.losses[b], dlosses[b],
                 out);
    }
  });
}

template void ctc_loss(const Ctc<float>&, const CtcKept&);
template void ctc_loss(const Ctc<double>&, const CtcKept&);
template void ctc_loss_backward(const Ctc<float>&, const CtcKept&, const double*, float*);
template void ctc_loss_backward(const Ctc<double>&, const CtcKept&, const double*, double*);

}  // namespace heed::kernels
