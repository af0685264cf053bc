// The pairs a recipe trains and evaluates on: read from its files, or made up.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heed/data/corpus.h"
#include "heed/train/recipe.h"

namespace heed {

/// Rows of a corpus; none where `corpus` is null.
struct CorpusPart {
  std::shared_ptr<const ParallelCorpus> corpus;
  std::vector<std::int64_t> rows;
  bool empty() const { return rows.empty(); }
};

struct Corpora {
  CorpusPart train;
  CorpusPart dev;
  CorpusPart test;
};

/// `count` of the numbers 0 .. `size` - 1, chosen at random by `seed`, ascending; all of them where `count`
/// is 0 or not below `size`.
std::vector<std::int64_t> random_choice(std::int64_t size, std::int64_t count, std::uint64_t seed);

/// Reads or makes the corpora of a recipe and tells `message` what was read and skipped.
Corpora load_corpora(const Recipe& recipe, const std::function<void(const std::string&)>& message);

/// Sequences of task.symbols letters, min_length to max_length of them, separated by spaces, and the same
/// backwards: task.pairs + data.dev_size + data.test_size different ones, the same for the same seed.
ParallelCorpus make_reversals(const Recipe& recipe);

}  // namespace heed
