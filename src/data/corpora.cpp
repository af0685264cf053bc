// Loads the corpora that DataOptions describe.
#include "data/corpora.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/json_field.h"
#include "core/stop_scope.h"
#include "data/lines.h"
#include "heed/error.h"
#include "heed/random.h"

namespace heed {
namespace {

using Message = std::function<void(const std::string&)>;

CorpusPart all_of(ParallelCorpus corpus) {
  CorpusPart part;
  part.rows.resize(static_cast<std::size_t>(corpus.size()));
  std::iota(part.rows.begin(), part.rows.end(), std::int64_t{0});
  part.corpus = std::make_shared<const ParallelCorpus>(std::move(corpus));
  return part;
}

// A text, or the texts of a list.
std::vector<std::string> texts_of(const JsonField& field) {
  if (field.value().is_string()) return {field.string()};
  if (!field.value().is_array()) field.fail("a text or a list of sentences");
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < field.array_size(); ++i) texts.push_back(field.at(i).string());
  return texts;
}

// Adds the pairs of a file, whose lines are counted on from those of the report.
void add_json_lines(const std::filesystem::path& file, const DataOptions& data, ParallelCorpus& corpus,
                    DataReport& report) {
  data::Lines lines(file);
  for (std::string line; lines.next(line);) {
    ++report.lines;
    const std::string where = fmt::format("{}:{}", file.string(), lines.count());
    const Json json = parse_json(line, where);
    const JsonField pair(json, where);
    const std::string source = fmt::format("{}", fmt::join(texts_of(pair.at(data.source_key)), " "));
    std::vector<std::string> targets = texts_of(pair.at(data.target_key));
    if (data.target_list == "sentences") targets = {fmt::format("{}", fmt::join(targets, " "))};
    std::erase(targets, "");
    if (source.empty() || targets.empty()) {
      report.skip(SkipReason::empty_side, report.lines);
      continue;
    }
    for (const std::string& target : targets) corpus.add(source, target, report.lines);
    ++report.kept;
  }
  report.control_bytes += lines.control_bytes();
}

ParallelCorpus load_json_lines(const std::filesystem::path& path, const DataOptions& data,
                               const std::filesystem::path& folder, DataReport& report) {
  ParallelCorpus corpus(folder);
  for (const std::filesystem::path& file : data::input_files(path))
    add_json_lines(file, data, corpus, report);
  if (corpus.size() == 0) throw Error(path.string() + ": expected pairs, got none");
  corpus.finish();
  return corpus;
}

// Only two-file formats use `target`. Returns an empty part if there is no file.
CorpusPart read_part(const DataOptions& data, const std::filesystem::path& source,
                     const std::filesystem::path& target, const std::filesystem::path& folder,
                     const Message& message) {
  if (source.empty()) return {};
  CorpusOptions options{.folder = folder};
  options.source_column = static_cast<int>(data.source_column) - 1;
  options.target_column = static_cast<int>(data.target_column) - 1;
  options.csv = data.format == "csv";
  options.header = data.header;
  DataReport report;
  ParallelCorpus corpus = data.format == "jsonl" ? load_json_lines(source, data, folder, report)
                          : target.empty()       ? load_columns(source, options, report)
                                                 : load_line_aligned(source, target, options, report);
  message(source.string() + ": " + report.summary());
  return all_of(std::move(corpus));
}

Corpora read_corpora(const DataOptions& data, const std::filesystem::path& folder, const Message& message) {
  const auto part = [&](const std::filesystem::path& file, const std::filesystem::path& source,
                        const std::filesystem::path& target) {
    if (data.format == "lines") return read_part(data, source, target, folder, message);
    return read_part(data, file, {}, folder, message);
  };
  return {part(data.train, data.train_source, data.train_target),
          part(data.dev, data.dev_source, data.dev_target),
          part(data.test, data.test_source, data.test_target)};
}

// Returns the number of different sequences, as a double because it overflows quickly.
double possible_sequences(const Reversals& reversals) {
  double sum = 0;
  for (std::int64_t n = reversals.min_length; n <= reversals.max_length; ++n) {
    sum += std::pow(static_cast<double>(reversals.symbols), static_cast<double>(n));
  }
  return sum;
}

// Returns a random number below `limit`, which must be small compared with 2^32.
std::int64_t below(Generator& generator, std::int64_t limit) {
  return static_cast<std::int64_t>(generator.next().word(0)) * limit >> 32;
}

ParallelCorpus make_reversals(const Reversals& reversals, const DataOptions& data) {
  constexpr std::int64_t kMost = 10'000'000;
  const std::int64_t wanted = reversals.pairs + data.dev_size + data.test_size;
  if (wanted > kMost) {
    throw Error(
        fmt::format("task.pairs, data.dev_size, data.test_size: expected at most {} sequences together, "
                    "got {}",
                    kMost, wanted));
  }
  if (static_cast<double>(wanted) > possible_sequences(reversals) / 2) {
    throw Error(
        fmt::format("task.pairs: expected at most half of the {:.0f} different sequences, development and "
                    "test set included, got {} (raise task.symbols or task.max_length)",
                    possible_sequences(reversals), wanted));
  }
  Generator generator(static_cast<std::uint64_t>(data.split_seed));
  std::set<std::string> seen;
  ParallelCorpus corpus;
  while (corpus.size() < wanted) {
    throw_if_stopped();
    const std::int64_t length =
        reversals.min_length + below(generator, reversals.max_length - reversals.min_length + 1);
    std::string forward;
    for (std::int64_t i = 0; i < length; ++i) {
      if (i > 0) forward += ' ';
      forward += static_cast<char>('a' + below(generator, reversals.symbols));
    }
    if (!seen.insert(forward).second) continue;
    corpus.add(forward, std::string(forward.rbegin(), forward.rend()), corpus.size() + 1);
  }
  return corpus;
}

}  // namespace

std::vector<std::int64_t> random_choice(std::int64_t size, std::int64_t count, std::uint64_t seed) {
  std::vector<std::int64_t> chosen(static_cast<std::size_t>(size));
  std::iota(chosen.begin(), chosen.end(), std::int64_t{0});
  if (count == 0 || count >= size) return chosen;
  // Each number has a random key; the smallest keys are selected.
  const RandomStream keys{seed, 0};
  const auto key = [&](std::int64_t i) { return std::pair(keys.word(static_cast<std::uint64_t>(i)), i); };
  std::nth_element(chosen.begin(), chosen.begin() + count, chosen.end(),
                   [&](std::int64_t a, std::int64_t b) { return key(a) < key(b); });
  chosen.resize(static_cast<std::size_t>(count));
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

Corpora load_corpora(const DataOptions& data, const std::optional<Reversals>& reversals,
                     const std::filesystem::path& folder, const Message& message) {
  Corpora corpora;
  if (reversals) {
    corpora.train = all_of(make_reversals(*reversals, data));
  } else {
    corpora = read_corpora(data, folder, message);
  }
  const SplitOptions split{.dev = corpora.dev.empty() ? data.dev_size : 0,
                           .test = corpora.test.empty() ? data.test_size : 0,
                           .seed = static_cast<std::uint64_t>(data.split_seed)};
  if (split.dev > 0 || split.test > 0) {
    CorpusSplit parts = split_corpus(*corpora.train.corpus, split);
    corpora.train.rows = std::move(parts.train);
    if (split.dev > 0) corpora.dev = {corpora.train.corpus, std::move(parts.dev)};
    if (split.test > 0) corpora.test = {corpora.train.corpus, std::move(parts.test)};
  }
  // Of several references, training takes the first.
  const ParallelCorpus& corpus = *corpora.train.corpus;
  std::erase_if(corpora.train.rows,
                [&](std::int64_t row) { return row > 0 && corpus.line(row) == corpus.line(row - 1); });
  std::vector<std::int64_t> taken =
      random_choice(static_cast<std::int64_t>(corpora.train.rows.size()), data.max_pairs, split.seed);
  for (std::int64_t& row : taken) row = corpora.train.rows[static_cast<std::size_t>(row)];
  corpora.train.rows = std::move(taken);
  message(fmt::format("{} pairs to train on, {} for development, {} for the test", corpora.train.rows.size(),
                      corpora.dev.rows.size(), corpora.test.rows.size()));
  return corpora;
}

}  // namespace heed
