// Additive attention scores, fused and by the formula.
#include "heed/ops/attention_variants.h"

#include "heed/autograd.h"
#include "heed/ops/activation.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "kernels/attention_variants.h"
#include "kernels/gemm.h"

namespace heed {
namespace {

void check_additive(const Tensor& q, const Tensor& k, const Tensor& v) {
  const bool fits = q.rank() == 3 && k.rank() == 3 && q.size(0) == k.size(0) && q.size(2) == k.size(2) &&
                    v.shape() == Shape{q.size(2)} && k.dtype() == q.dtype() && v.dtype() == q.dtype();
  if (!fits) {
    throw Error("additive_scores: expected q [B, T, A], k [B, S, A] and v [A] of one type, got " + q.str() +
                ", " + k.str() + " and " + v.str());
  }
}

template <class T>
kernels::AdditiveOperands<T> additive_operands(const Tensor& q, const Tensor& k, const Tensor& v) {
  return {q.size(0), q.size(1), k.size(1), q.size(2), q.data<T>(), k.data<T>(), v.data<T>()};
}

}  // namespace

Tensor additive_scores(const Tensor& q, const Tensor& k, const Tensor& v) {
  check_additive(q, k, v);
  const Tensor queries = q.contiguous(), keys = k.contiguous(), weights = v.contiguous();
  Tensor scores = Tensor::empty({q.size(0), q.size(1), k.size(1)}, q.dtype());
  dispatch_float("additive_scores", q.dtype(), [&]<class T>() {
    kernels::additive_scores(additive_operands<T>(queries, keys, weights), scores.data<T>());
  });
  if (!needs_gradient({q, k, v})) return scores;
  record(scores, "additive_scores", {queries, keys, weights},
         [q = queries.detach(), k = keys.detach(), v = weights.detach()](const Tensor& dscores) {
           const Tensor d = dscores.contiguous();
           const Tensor dq = Tensor::empty(q.shape(), q.dtype()), dk = Tensor::empty(k.shape(), q.dtype());
           const Tensor rows = Tensor::empty({q.size(0), q.size(2)}, q.dtype());
           const Tensor dv = Tensor::empty(v.shape(), q.dtype());
           dispatch_float("additive_scores", q.dtype(), [&]<class T>() {
             kernels::additive_scores_backward(additive_operands<T>(q, k, v), d.data<T>(), dq.data<T>(),
                                               dk.data<T>(), rows.data<T>());
             kernels::bias_gradient(rows.data<T>(), dv.data<T>(), rows.size(0), rows.size(1));
           });
           return std::vector<Tensor>{dq, dk, dv};
         });
  return scores;
}

Tensor additive_scores_by_formula(const Tensor& q, const Tensor& k, const Tensor& v) {
  check_additive(q, k, v);
  return sum(tanh(unsqueeze(q, 2) + unsqueeze(k, 1)) * v, -1);
}

}  // namespace heed
