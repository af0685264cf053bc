// Scores of ranked lists: how early the documents that a query asks for come.
#pragma once

#include <cstddef>
#include <span>

#include "heed/export.h"

namespace HEED_API heed {

/// The share of `relevant` documents among the first `depth` of `gains`, the gains of a query's documents in
/// their ranked order: a gain above 0 is relevant.
double recall(std::span<const double> gains, std::size_t relevant, std::size_t depth);

/// 1 / rank of the first relevant document, from 1; 0 if it is none of the first `depth`. Its mean over
/// queries is MRR.
double reciprocal_rank(std::span<const double> gains, std::size_t depth);

/// DCG / ideal DCG, where DCG is the sum over the first `depth` documents of gain / log2(rank + 1), and ideal
/// the DCG of `all` gains, in any order, in descending order; 0 if none is relevant. Järvelin and Kekäläinen
/// 2002, "Cumulated gain-based evaluation of IR techniques".
double ndcg(std::span<const double> gains, std::span<const double> all, std::size_t depth);

}  // namespace heed
