// Reads pairs of texts, reports what was skipped, and splits them.
#include "heed/data/corpus.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "core/stop_scope.h"
#include "core/strings.h"
#include "data/lines.h"
#include "files/spilled_array.h"
#include "heed/error.h"
#include "heed/random.h"
#include "heed/text/unicode.h"

namespace heed {
namespace {

std::string_view trim(std::string_view text) {
  return trimmed(text, " \t\r\v\f");  // a quoted field keeps its line ends
}

void check_limits(const std::string& where, const CorpusOptions& options) {
  if (options.max_characters < 0) {
    throw Error(fmt::format("{}: expected max_characters >= 0, got {} (0 means no limit)", where,
                            options.max_characters));
  }
  if (!(options.max_character_ratio == 0 || options.max_character_ratio >= 1)) {
    throw Error(fmt::format("{}: expected max_character_ratio >= 1 or 0, got {} (0 means no limit)", where,
                            options.max_character_ratio));
  }
}

void check_columns(const std::string& where, const CorpusOptions& options) {
  if (options.source_column < 0 || options.target_column < 0 ||
      options.source_column == options.target_column) {
    throw Error(fmt::format("{}: expected two different columns >= 0, got {} and {} (columns count from 0)",
                            where, options.source_column, options.target_column));
  }
}

/// Returns why a pair of valid texts cannot be used, or nullopt if it can.
std::optional<SkipReason> reject(std::string_view source, std::string_view target,
                                 const CorpusOptions& options) {
  if (source.empty() || target.empty()) return SkipReason::empty_side;
  if (options.max_characters == 0 && options.max_character_ratio == 0) return std::nullopt;
  const auto [shorter, longer] = std::minmax({count_characters(source), count_characters(target)});
  if (options.max_characters > 0 && longer > options.max_characters) return SkipReason::too_many_characters;
  if (options.max_character_ratio > 0 &&
      static_cast<double>(longer) > options.max_character_ratio * static_cast<double>(shorter)) {
    return SkipReason::character_ratio;
  }
  return std::nullopt;
}

void take(std::string_view source, std::string_view target, std::int64_t line, const CorpusOptions& options,
          ParallelCorpus& corpus, DataReport& report) {
  if (const auto reason = reject(source, target, options)) {
    report.skip(*reason, line);
    return;
  }
  corpus.add(source, target, line);
  ++report.kept;
}

/// Returns the two columns of a row, or nullopt if it has too few or too many.
std::optional<std::pair<std::string_view, std::string_view>> pick_columns(const std::vector<std::string>& row,
                                                                          const CorpusOptions& options) {
  const auto source = static_cast<std::size_t>(options.source_column),
             target = static_cast<std::size_t>(options.target_column), count = std::max(source, target) + 1;
  if (row.size() < count || (row.size() > count && !options.allow_extra_columns)) return std::nullopt;
  return std::pair{trim(row[source]), trim(row[target])};
}

void require_any(const std::string& where, const ParallelCorpus& corpus, const DataReport& report) {
  if (corpus.size() > 0) return;
  throw Error(fmt::format("{}: no usable line (of {})", where, report.summary()));
}

}  // namespace

struct ParallelCorpus::Data {
  struct Row {
    std::uint64_t begin;
    std::uint64_t middle;  // end of the source, beginning of the target
    std::uint64_t end;
    std::int64_t line;
  };
  SpilledArray<char> text;
  SpilledArray<Row> rows;

  const Row& at(std::int64_t row) const {
    HEED_ASSERT(row >= 0 && static_cast<std::size_t>(row) < rows.size(), "row outside the corpus");
    return rows.view()[static_cast<std::size_t>(row)];
  }
};

ParallelCorpus::ParallelCorpus(const std::filesystem::path& folder)
    : data_(new Data{SpilledArray<char>(folder), SpilledArray<Data::Row>(folder)}) {}

std::int64_t ParallelCorpus::size() const { return static_cast<std::int64_t>(data_->rows.size()); }

std::string_view ParallelCorpus::source(std::int64_t row) const {
  const Data::Row& r = data_->at(row);
  return {data_->text.view().data() + r.begin, r.middle - r.begin};
}

std::string_view ParallelCorpus::target(std::int64_t row) const {
  const Data::Row& r = data_->at(row);
  return {data_->text.view().data() + r.middle, r.end - r.middle};
}

std::int64_t ParallelCorpus::line(std::int64_t row) const { return data_->at(row).line; }

void ParallelCorpus::add(std::string_view source, std::string_view target, std::int64_t line) {
  SpilledArray<char>& text = data_->text;
  const std::uint64_t begin = text.size();
  text.append(source);
  text.append(target);
  data_->rows.push_back({begin, begin + source.size(), text.size(), line});
}

void ParallelCorpus::finish() {
  data_->text.finish();
  data_->rows.finish();
}

ParallelCorpus load_columns(const std::filesystem::path& path, const CorpusOptions& options,
                            DataReport& report) {
  check_limits(path.string(), options);
  check_columns(path.string(), options);
  ParallelCorpus corpus(options.folder);
  std::int64_t before = 0;  // rows of the files before
  for (const std::filesystem::path& file : data::input_files(path)) {
    data::Table table(file, options.csv ? "csv" : "tsv", options.header);
    for (std::vector<std::string> row; table.next(row);) {
      const std::int64_t number = before + table.line();
      ++report.lines;
      if (!table.is_utf8()) {
        report.skip(SkipReason::not_utf8, number);
      } else if (std::all_of(row.begin(), row.end(), [](const auto& field) { return trim(field).empty(); })) {
        report.skip(SkipReason::empty_side, number);
      } else if (const auto columns = pick_columns(row, options); columns && row.size() <= table.width()) {
        take(columns->first, columns->second, number, options, corpus, report);
      } else {
        report.skip(SkipReason::wrong_columns, number);
      }
    }
    before += table.lines();
    report.control_bytes += table.control_bytes();
  }
  require_any(path.string(), corpus, report);
  corpus.finish();
  return corpus;
}

ParallelCorpus load_line_aligned(const std::filesystem::path& source_file,
                                 const std::filesystem::path& target_file, const CorpusOptions& options,
                                 DataReport& report) {
  const std::string where = source_file.string() + " and " + target_file.string();
  check_limits(where, options);
  data::Lines sources(source_file), targets(target_file);
  ParallelCorpus corpus(options.folder);
  std::string source, target;
  for (;;) {
    const bool has_source = sources.next(source);
    const bool has_target = targets.next(target);
    if (!has_source && !has_target) break;
    if (!has_source || !has_target) continue;  // count all lines for the message below
    ++report.lines;
    if (first_invalid_utf8(source) || first_invalid_utf8(target)) {
      report.skip(SkipReason::not_utf8, sources.count());
    } else {
      take(trim(source), trim(target), sources.count(), options, corpus, report);
    }
  }
  if (sources.count() != targets.count()) {
    throw Error(fmt::format(
        "{}: expected the same number of lines, got {} and {} (line i of one must translate line i "
        "of the other)",
        where, sources.count(), targets.count()));
  }
  report.control_bytes += sources.control_bytes() + targets.control_bytes();
  require_any(where, corpus, report);
  corpus.finish();
  return corpus;
}

namespace {

const char* describe(SkipReason reason) {
  switch (reason) {
    case SkipReason::not_utf8: return "not UTF-8";
    case SkipReason::wrong_columns: return "wrong number of columns";
    case SkipReason::empty_side: return "empty side";
    case SkipReason::too_many_characters: return "too many characters";
    case SkipReason::character_ratio: return "lengths too different (characters)";
    case SkipReason::too_many_tokens: return "too many tokens";
    case SkipReason::token_ratio: return "lengths too different (tokens)";
  }
  HEED_ASSERT(false, "unknown reason");
}

}  // namespace

void DataReport::skip(SkipReason reason, std::int64_t line) {
  Skipped& entry = skipped[static_cast<std::size_t>(reason)];
  ++entry.count;
  if (entry.lines.size() < kLinesKept) entry.lines.push_back(line);
}

std::string DataReport::summary() const {
  std::string text = fmt::format("{} lines, {} kept, {} skipped", lines, kept, skipped_count());
  for (std::size_t i = 0; i < kReasons; ++i) {
    const Skipped& entry = skipped[i];
    if (entry.count == 0) continue;
    const bool more = entry.count > static_cast<std::int64_t>(entry.lines.size());
    text += fmt::format("\n  {}: {} (line{} {}{})", describe(static_cast<SkipReason>(i)), entry.count,
                        entry.count == 1 ? "" : "s", fmt::join(entry.lines, ", "), more ? ", ..." : "");
  }
  if (control_bytes > 0) text += fmt::format("\n  {}", data::control_bytes_text(control_bytes));
  return text;
}

namespace {

/// FNV-1a, then Philox to mix in the seed: the same on every platform, unlike std::hash.
std::uint64_t hash_text(std::string_view text, std::uint64_t seed) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  const auto words = philox4x32(seed, hash, text.size());
  return (static_cast<std::uint64_t>(words[0]) << 32) | words[1];
}

using HashedSource = std::pair<std::uint64_t, std::string_view>;

/// Returns the `count` distinct sources of the lowest hashes, or all if there are fewer.
std::set<HashedSource> lowest_sources(const ParallelCorpus& corpus, std::uint64_t seed, std::size_t count) {
  std::set<HashedSource> lowest;
  for (std::int64_t row = 0; row < corpus.size(); ++row) {
    throw_if_stopped();
    const HashedSource source{hash_text(corpus.source(row), seed), corpus.source(row)};
    if (lowest.size() == count && source > *lowest.rbegin()) continue;
    lowest.insert(source);
    if (lowest.size() > count) lowest.erase(std::prev(lowest.end()));
  }
  return lowest;
}

}  // namespace

CorpusSplit split_corpus(const ParallelCorpus& corpus, const SplitOptions& options) {
  if (options.dev < 0 || options.test < 0) {
    throw Error(fmt::format("split: expected sizes >= 0, got dev {} and test {}", options.dev, options.test));
  }
  const std::int64_t most = std::min(options.dev, corpus.size()) + std::min(options.test, corpus.size());
  const auto lowest = lowest_sources(corpus, options.seed, static_cast<std::size_t>(most) + 1);
  const auto found = static_cast<std::int64_t>(lowest.size());
  if (options.dev >= found || options.test >= found - options.dev) {
    throw Error(fmt::format(
        "split: expected dev + test below the {} distinct source texts, got {} + {} (ask for less, "
        "or give more text)",
        found, options.dev, options.test));
  }
  enum class Part : std::uint8_t { dev, test };
  std::unordered_map<std::string_view, Part> held_out;
  for (auto source = lowest.begin(); source != std::prev(lowest.end()); ++source) {
    const auto taken = static_cast<std::int64_t>(held_out.size());
    held_out.emplace(source->second, taken < options.test ? Part::test : Part::dev);
  }
  CorpusSplit split;
  for (std::int64_t row = 0; row < corpus.size(); ++row) {
    throw_if_stopped();
    const auto held = held_out.find(corpus.source(row));
    if (held == held_out.end()) {
      split.train.push_back(row);
    } else {
      (held->second == Part::test ? split.test : split.dev).push_back(row);
    }
  }
  return split;
}

std::vector<ReferenceGroup> group_references(const ParallelCorpus& corpus,
                                             std::span<const std::int64_t> rows) {
  std::unordered_map<std::string_view, std::size_t> place;
  std::vector<ReferenceGroup> groups;
  for (const std::int64_t row : rows) {
    throw_if_stopped();
    const auto [entry, is_new] = place.emplace(corpus.source(row), groups.size());
    if (is_new) groups.push_back({std::string(corpus.source(row)), {}});
    auto& references = groups[entry->second].references;
    if (std::find(references.begin(), references.end(), corpus.target(row)) == references.end()) {
      references.emplace_back(corpus.target(row));
    }
  }
  return groups;
}

}  // namespace heed
