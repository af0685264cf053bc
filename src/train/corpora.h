// The pairs that a recipe trains and evaluates on, read from files or generated.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heed/data/corpus.h"
#include "heed/train/recipe.h"

namespace heed {

/// Rows of a corpus; empty if `corpus` is null.
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

/// Returns `count` of the numbers 0 .. `size` - 1, chosen at random by `seed`, in ascending order; all of
/// them if `count` is 0 or at least `size`.
std::vector<std::int64_t> random_choice(std::int64_t size, std::int64_t count, std::uint64_t seed);

/// Reads or generates the corpora of a recipe, and reports to `message` what was read and skipped. Large ones
/// are kept in files in `folder`.
Corpora load_corpora(const Recipe& recipe, const std::filesystem::path& folder,
                     const std::function<void(const std::string&)>& message);

/// Generates pairs of a sequence and its reversal: min_length to max_length letters out of task.symbols,
/// separated by spaces. There are task.pairs + data.dev_size + data.test_size different ones, which depend
/// only on the seed.
ParallelCorpus make_reversals(const Recipe& recipe);

}  // namespace heed
