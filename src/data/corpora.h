// The pairs that a task trains and evaluates on, read from files or generated.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/labeled_data.h"
#include "heed/data/corpus.h"
#include "heed/data/data_options.h"

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

/// Pairs of a sequence and its reversal: min_length to max_length letters out of `symbols`, separated by
/// spaces, `pairs` of them to train on. All are different, and depend only on data.split_seed.
struct Reversals {
  std::int64_t symbols = 0, min_length = 0, max_length = 0, pairs = 0;
};

/// Reads the corpora, or generates `reversals`, and reports to `message` what was read and skipped. Large
/// ones are kept in files in `folder`.
Corpora load_corpora(const DataOptions& data, const std::optional<Reversals>& reversals,
                     const std::filesystem::path& folder,
                     const std::function<void(const std::string&)>& message);

// Recordings and what is said in them, for training and evaluating models of speech.

/// Paths of sound files, as texts, and what is said in them, as the one label, in data.format: tsv or csv
/// (data.header, source_column, target_column), jsonl (source_key, target_key), or `folders`: a folder with
/// metadata.csv or metadata.jsonl, in which file_name is the path and target_key the text, as Hugging Face's
/// audiofolder. Paths start at the folder of the file. Those without text are skipped. Throws Error naming
/// file and line.
LabeledTexts read_recordings(const std::filesystem::path& path, const DataOptions& data,
                             const std::filesystem::path& folder);

}  // namespace heed
