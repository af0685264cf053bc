// Parallel corpora: pairs of a source and a target text, read row by row from one file of columns, separated
// by tabs or by commas, or from two line-aligned files. Unusable lines are skipped; a report has their counts
// and line numbers.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/export.h"

namespace HEED_API heed {

/// Why a line was skipped.
enum class SkipReason : std::uint8_t {
  not_utf8,
  wrong_columns,
  empty_side,
  too_many_characters,
  character_ratio,
  too_many_tokens,
  token_ratio,
};

/// Counts of kept and skipped lines.
struct DataReport {
  static constexpr std::size_t kReasons = 7;
  static constexpr std::size_t kLinesKept = 5;  ///< line numbers stored per reason

  struct Skipped {
    std::int64_t count = 0;
    std::vector<std::int64_t> lines;  ///< the first line numbers, counted from 1
  };

  std::int64_t lines = 0;
  std::int64_t kept = 0;
  std::int64_t control_bytes = 0;  ///< null bytes and other control codes, which do not belong in text
  std::array<Skipped, kReasons> skipped = {};

  void skip(SkipReason reason, std::int64_t line);
  const Skipped& operator[](SkipReason reason) const { return skipped[static_cast<std::size_t>(reason)]; }
  std::int64_t skipped_count() const { return lines - kept; }
  /// Returns one line for the total, then one for each reason that occurred: "1000 lines, 998 kept, 2
  /// skipped\n  not UTF-8: 2 (lines 7, 31)". Does not end with a newline.
  std::string summary() const;
};

/// Which lines to use. Lengths count Unicode characters (code points).
struct CorpusOptions {
  bool csv = false;     ///< columns separated by commas, with quotes (RFC 4180), instead of tabs
  bool header = false;  ///< the first row of a file is not read
  int source_column = 0;
  int target_column = 1;
  /// false: lines with more than two columns are skipped; of others, those with more than the first row has
  bool allow_extra_columns = true;
  std::int64_t max_characters = 0;    ///< maximum on either side; 0 = no limit
  double max_character_ratio = 0;     ///< longer side / shorter side; 0 = no limit
  std::filesystem::path folder = {};  ///< of the corpus, see ParallelCorpus
};

/// The texts of a corpus.
/// Threads: several may read one object at once.
class ParallelCorpus {
 public:
  /// With a folder, a large corpus is kept in an unnamed file there, which disappears when the process ends.
  explicit ParallelCorpus(const std::filesystem::path& folder = {});
  ParallelCorpus(ParallelCorpus&&) = default;
  ParallelCorpus& operator=(ParallelCorpus&&) = default;
  std::int64_t size() const;
  std::string_view source(std::int64_t row) const;
  std::string_view target(std::int64_t row) const;
  /// Returns the number of the line, from 1, that the row came from.
  std::int64_t line(std::int64_t row) const;
  void add(std::string_view source, std::string_view target, std::int64_t line);
  /// Nothing is added afterward. Must be called before texts are read if there is a folder.
  void finish();

 private:
  struct Data;
  std::shared_ptr<Data> data_;
};

/// Reads columns of a file, or of all files of a folder in the order of their names; line numbers continue
/// from file to file. Removes a byte order mark, carriage returns at line ends, and spaces around texts. Adds
/// to `report`. Throws Error if the file cannot be read, if the options are invalid, for quotes that do not
/// match (csv), or if no line is usable.
ParallelCorpus load_columns(const std::filesystem::path& path, const CorpusOptions& options,
                            DataReport& report);

/// Reads line i of both files as a pair; the column options are ignored. Throws Error as load_columns does,
/// and if the files have different numbers of lines.
ParallelCorpus load_line_aligned(const std::filesystem::path& source_file,
                                 const std::filesystem::path& target_file, const CorpusOptions& options,
                                 DataReport& report);

/// Rows of a corpus for training, for development and for the final test.
struct CorpusSplit {
  std::vector<std::int64_t> train;
  std::vector<std::int64_t> dev;
  std::vector<std::int64_t> test;
};

/// Sizes count distinct source texts.
struct SplitOptions {
  std::int64_t dev = 0;
  std::int64_t test = 0;
  std::uint64_t seed = 0;
};

/// Splits by a hash of the source text: rows with the same source are in the same set, and the selection
/// depends only on the set of source texts and the seed, not on the order of the lines. Rows keep their order
/// within a set. Throws Error if no row would be left for training.
CorpusSplit split_corpus(const ParallelCorpus& corpus, const SplitOptions& options);

/// One source text with all its distinct targets, in the order of the corpus.
struct ReferenceGroup {
  std::string source;
  std::vector<std::string> references;
};

/// Returns the distinct sources among `rows`, in the order of their first appearance.
std::vector<ReferenceGroup> group_references(const ParallelCorpus& corpus,
                                             std::span<const std::int64_t> rows);

}  // namespace heed
