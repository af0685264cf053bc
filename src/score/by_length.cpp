// BLEU of lines grouped by the number of words of their sources.
#include "heed/score/bleu.h"

#include <iterator>
#include <map>
#include <sstream>

#include "heed/error.h"

namespace heed {
namespace {

std::int64_t count_words(const std::string& line) {
  std::istringstream words(line);
  return std::distance(std::istream_iterator<std::string>(words), {});
}

}  // namespace

std::vector<LengthGroup> bleu_by_length(const std::vector<std::string>& sources,
                                        const std::vector<std::string>& hypotheses,
                                        const std::vector<std::vector<std::string>>& references,
                                        std::int64_t width, const BleuOptions& options) {
  if (width < 1)
    throw Error("bleu_by_length: expected a width of at least 1 word, got " + std::to_string(width));
  if (sources.size() != hypotheses.size())
    throw Error("bleu_by_length: expected " + std::to_string(hypotheses.size()) +
                " sources, one per hypothesis, got " + std::to_string(sources.size()));
  for (const std::vector<std::string>& stream : references) {
    if (stream.size() != hypotheses.size())
      throw Error("bleu_by_length: expected " + std::to_string(hypotheses.size()) +
                  " references, one per hypothesis, got " + std::to_string(stream.size()));
  }
  struct Lines {
    std::vector<std::size_t> numbers;
    std::int64_t words = 0;
  };
  std::map<std::int64_t, Lines> by_group;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::int64_t words = count_words(sources[i]);
    if (words == 0) continue;
    Lines& lines = by_group[(words - 1) / width];
    lines.numbers.push_back(i);
    lines.words += words;
  }
  std::vector<LengthGroup> groups;
  for (const auto& [index, lines] : by_group) {
    const auto selected = [&numbers = lines.numbers](const std::vector<std::string>& all) {
      std::vector<std::string> some;
      for (const std::size_t i : numbers) some.push_back(all[i]);
      return some;
    };
    std::vector<std::vector<std::string>> streams;
    for (const std::vector<std::string>& stream : references) streams.push_back(selected(stream));
    const auto count = static_cast<std::int64_t>(lines.numbers.size());
    groups.push_back({index * width + 1, (index + 1) * width, count,
                      static_cast<double>(lines.words) / static_cast<double>(count),
                      corpus_bleu(selected(hypotheses), streams, options)});
  }
  return groups;
}

}  // namespace heed
