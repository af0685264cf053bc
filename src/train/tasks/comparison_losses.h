// Losses that compare texts: of vectors (bi-encoders), and of the logits of a reranker (cross-encoder). Each
// is a sum over its rows, as TrainingTask wants it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "heed/tensor.h"

namespace heed {

class Generator;

/// How multiple_negatives_loss() compares.
struct MultipleNegatives {
  double scale = 20;
  bool symmetric = false;
  double label_smoothing = 0;
};

/// In-batch negatives (Henderson et al. 2017, "Efficient natural language response suggestion"; van den Oord
/// et al. 2018, "InfoNCE"): the sum over anchors i of
///   -log softmax_j(scale cos(anchor_i, text_j))[i],
/// for anchors [N, D] and texts [M, D], of which the first N are the positives and the others negatives of
/// all. `symmetric`: the mean of this and the same from positives to anchors.
Tensor multiple_negatives_loss(const Tensor& anchors, const Tensor& texts, const MultipleNegatives& options);

/// CoSENT (Su 2022): N log(1 + sum over i, j with label_i < label_j of exp(scale (cos_i - cos_j))), where
/// cos_i is that of rows i of a and b, [N, D].
Tensor cosent_loss(const Tensor& a, const Tensor& b, std::span<const float> labels, double scale);

/// The sum over i of (cos_i - label_i)^2.
Tensor cosine_loss(const Tensor& a, const Tensor& b, std::span<const float> labels);

/// Matryoshka (Kusupati et al. 2022): the sum of `loss` over vectors that are cut to their first numbers, for
/// each of `sizes`; of none, the loss of the whole vectors.
Tensor matryoshka_loss(const Tensor& vectors, std::span<const std::int64_t> sizes,
                       const std::function<Tensor(const Tensor&)>& loss);

// Losses of rerankers: of the logits [N] of pairs, and their labels; `counts` are the documents of each
// query, one query after the other.

/// Binary cross-entropy: the sum over pairs of -y log sigmoid(x) - (1 - y) log sigmoid(-x), for labels y in 0
/// .. 1.
Tensor pair_loss(const Tensor& logits, std::span<const float> labels);

/// ListNet (Cao et al. 2007, "Learning to rank: from pairwise approach to listwise approach"): the sum over
/// queries of the cross-entropy between softmax(labels) and softmax(logits) over the query's documents.
Tensor list_net_loss(const Tensor& logits, std::span<const float> labels,
                     std::span<const std::int64_t> counts);

/// LambdaLoss with NDCG-Loss2++ (Wang et al. 2018, "The LambdaLoss framework for ranking metric
/// optimization"): the sum over pairs of a query's documents with label_i > label_j of
///   -w_ij log2 sigmoid(x_i - x_j),  w_ij = (10 |1/D(d) - 1/D(d + 1)| + |1/D(r_i) - 1/D(r_j)|) |G_i - G_j|,
/// where r are the ranks by the logits, from 1, d = |r_i - r_j|, D(r) = log2(1 + r), and G_i = (2^label_i -
/// 1) / (the query's ideal sum of (2^label - 1) / D).
Tensor lambda_loss(const Tensor& logits, std::span<const float> labels, std::span<const std::int64_t> counts);

/// The pairs that lambda_loss() sums over.
std::int64_t count_unequal(std::span<const float> labels, std::span<const std::int64_t> counts);

/// GradCache (Gao et al. 2021, "Scaling deep contrastive learning batch size under memory limited setup"):
/// the loss of the vectors of all mini-batches, [sum of n_i, D], with the memory of one. `vectors(i)`
/// computes the vectors [n_i, D] of mini-batch i, twice: without gradients, for the loss and its gradient
/// dL/d(vectors), and again, to take the latter on to the weights. Dropout is the same, as the generator (may
/// be null) is sought back. Gradients of all mini-batches but the last are added to the leaves here;
/// backward() of the result adds those of the last.
Tensor cached_loss(std::size_t batches, const std::function<Tensor(std::size_t)>& vectors,
                   const std::function<Tensor(const Tensor&)>& loss, Generator* generator);

}  // namespace heed
