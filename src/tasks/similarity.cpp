// Computes similarities by one matrix product.
#include "heed/tasks/similarity.h"

#include <algorithm>
#include <limits>
#include <string>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/matmul.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "ops/reduce.h"
#include "tasks/scores.h"

namespace heed {
namespace {

void check(const Tensor& a, const Tensor& b) {
  if (a.rank() == 2 && b.rank() == 2 && a.size(1) == b.size(1) && a.size(1) > 0) return;
  throw Error("similarity: expected vectors of one length [N, D] and [M, D], got " + a.str() + " and " +
              b.str());
}

// Returns f32 rows, scaled to unit length for cosines.
Tensor prepared(const Tensor& x, Similarity kind) {
  const Tensor rows = x.detach().to(DType::f32).contiguous();
  if (!all_finite(rows)) throw Error("similarity: expected vectors of finite numbers, got others");
  return kind == Similarity::dot ? rows : normalize_rows(rows, std::numeric_limits<double>::min());
}

// Calls `handle` with the similarities of each query to all vectors.
template <class Handle>
void for_each_scores(const Tensor& queries, const Tensor& vectors, Similarity kind, const Handle& handle) {
  const NoGradients guard;
  const Tensor asked = prepared(queries, kind), searched = transpose(prepared(vectors, kind), 0, 1);
  constexpr std::int64_t kQueryBlock = 64;  // query rows whose scores are in memory at a time
  for (std::int64_t first = 0; first < asked.size(0); first += kQueryBlock) {
    const Tensor scores =
        matmul(slice(asked, 0, first, std::min(first + kQueryBlock, asked.size(0))), searched).contiguous();
    for (std::int64_t q = 0; q < scores.size(0); ++q) {
      const float* row = scores.data<float>() + q * scores.size(1);
      handle(std::vector<double>(row, row + scores.size(1)));
    }
  }
}

}  // namespace

Similarity similarity_named(std::string_view name) {
  if (name.empty() || name == "cosine") return Similarity::cosine;
  if (name == "dot") return Similarity::dot;
  throw Error("similarity: expected cosine or dot, got " + std::string(name));
}

Tensor similarity(const Tensor& a, const Tensor& b, Similarity kind) {
  check(a, b);
  const NoGradients guard;
  return matmul(prepared(a, kind), transpose(prepared(b, kind), 0, 1));
}

std::vector<std::vector<Match>> nearest(const Tensor& queries, const Tensor& vectors, std::int64_t top_k,
                                        Similarity kind) {
  check(queries, vectors);
  if (top_k < 1) throw Error("nearest: expected top_k of at least 1, got " + std::to_string(top_k));
  std::vector<std::vector<Match>> results;
  for_each_scores(queries, vectors, kind, [&](const std::vector<double>& scores) {
    results.emplace_back();
    for (const std::size_t best : tasks::largest(scores, static_cast<std::size_t>(top_k)))
      results.back().push_back({best, scores[best]});
  });
  return results;
}

std::vector<std::vector<Match>> hard_negatives(const Tensor& queries, const Tensor& vectors,
                                               std::span<const std::vector<std::size_t>> right,
                                               const HardNegatives& options, Similarity kind) {
  check(queries, vectors);
  if (std::ssize(right) != queries.size(0))
    throw Error("hard_negatives: expected the right rows of " + std::to_string(queries.size(0)) +
                " queries, got " + std::to_string(right.size()));
  std::vector<std::vector<Match>> results;
  for_each_scores(queries, vectors, kind, [&](const std::vector<double>& scores) {
    const std::vector<std::size_t>& own = right[results.size()];
    const double most = scores.at(own.front()) - options.margin;
    std::vector<Match> found;
    std::int64_t rank = 0;
    for (const std::size_t row :
         tasks::largest(scores, static_cast<std::size_t>(options.range_max) + own.size())) {
      if (std::find(own.begin(), own.end(), row) != own.end() || rank++ < options.range_min) continue;
      if (rank > options.range_max || std::ssize(found) == options.count) break;
      if (scores[row] <= most) found.push_back({row, scores[row]});
    }
    results.push_back(std::move(found));
  });
  return results;
}

}  // namespace heed
