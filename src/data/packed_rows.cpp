// Cuts documents and packs them.
#include "data/packed_rows.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace heed {
namespace {

// The first answer that ends behind `at`.
std::vector<TextRow>::const_iterator answer_at(const std::vector<TextRow>& answers, std::int64_t at) {
  return std::partition_point(answers.begin(), answers.end(),
                              [at](const TextRow& answer) { return answer.second <= at; });
}

}  // namespace

bool has_target(const DocumentPart& part, const std::vector<TextRow>& answers) {
  const std::int64_t first = part.begin + 1, end = part.end + part.goes_on;
  if (first >= end) return false;
  if (answers.empty()) return true;
  const auto answer = answer_at(answers, first);
  return answer != answers.end() && answer->first < end;
}

std::int64_t label_part(const TextCorpus& corpus, const std::vector<TextRow>& answers,
                        const DocumentPart& part, std::int64_t* labels, float* weights) {
  const std::int64_t first = part.begin + 1;
  std::int64_t targets = 0;
  auto answer = answer_at(answers, first);
  for (std::int64_t at = first; at < part.end + part.goes_on; ++at) {
    while (answer != answers.end() && answer->second <= at) ++answer;
    if (!answers.empty() && (answer == answers.end() || answer->first > at)) continue;
    labels[at - first] = corpus.ids()[static_cast<std::size_t>(at)];
    if (weights != nullptr)
      weights[at - first] =
          static_cast<float>(corpus.weights()[static_cast<std::size_t>(answer - answers.begin())]);
    ++targets;
  }
  return targets;
}

DocumentParts parts_of_documents(const TextCorpus& corpus, const std::vector<TextRow>& answers,
                                 std::int64_t longest, LongDocuments policy) {
  DocumentParts found;
  std::int64_t begin = 0;
  for (const std::int64_t end : corpus.ends()) {
    DocumentPart part{std::exchange(begin, end), end};
    ++found.documents;
    const bool longer = part.size() > longest;
    found.longer += longer;
    found.longest = std::max(found.longest, part.size());
    if (longer && policy == LongDocuments::skip) continue;
    if (longer && policy == LongDocuments::truncate) part.end = part.begin + longest;
    const std::size_t before = found.parts.size();
    for (std::int64_t at = part.begin; at < part.end; at += longest) {
      const bool rest = policy != LongDocuments::split || part.end - at <= longest;
      const DocumentPart piece{at, rest ? part.end : at + longest, !rest};
      if (has_target(piece, answers)) found.parts.push_back(piece);
      if (rest) break;
    }
    found.without_targets += before == found.parts.size();
  }
  return found;
}

PackedRows::PackedRows(std::vector<DocumentPart> parts, std::int64_t capacity) {
  std::stable_sort(parts.begin(), parts.end(),
                   [](const DocumentPart& a, const DocumentPart& b) { return a.size() > b.size(); });
  std::vector<std::size_t> row_of(parts.size());
  std::map<std::int64_t, std::vector<std::size_t>> with_room;  // rows by the tokens that they have left
  std::size_t rows = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t size = parts[i].size();
    std::int64_t room = capacity;
    if (const auto found = with_room.lower_bound(size); found != with_room.end()) {
      room = found->first;
      row_of[i] = found->second.back();
      found->second.pop_back();
      if (found->second.empty()) with_room.erase(found);
    } else {
      row_of[i] = rows++;
    }
    if (room > size) with_room[room - size].push_back(row_of[i]);
  }
  ends_.resize(rows);
  for (const std::size_t row : row_of) ++ends_[row];
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
  std::vector<std::size_t> next(rows);
  for (std::size_t row = 1; row < rows; ++row) next[row] = ends_[row - 1];
  parts_.resize(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) parts_[next[row_of[i]]++] = parts[i];
}

std::span<const DocumentPart> PackedRows::row(std::int64_t number) const {
  const auto at = static_cast<std::size_t>(number);
  const std::size_t begin = at == 0 ? 0 : ends_[at - 1];
  return std::span(parts_).subspan(begin, ends_[at] - begin);
}

std::int64_t PackedRows::length(std::int64_t number) const {
  std::int64_t tokens = 0;
  for (const DocumentPart& part : row(number)) tokens += part.size();
  return tokens;
}

}  // namespace heed
