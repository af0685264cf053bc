// Rows that hold whole documents, as many as fit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/text_corpus.h"

namespace heed {

/// Tokens begin .. end - 1 of a document.
struct DocumentPart {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool goes_on = false;  ///< the document has a token at `end`, which is predicted too

  std::int64_t size() const { return end - begin; }
};

/// What becomes of documents that are longer than a row.
enum class LongDocuments {
  truncate,  ///< to their first tokens
  skip,      ///< left out
  split,     ///< into parts of a row each
};

/// Whether a label of the part, a token behind its first, is in an answer (any, if there are none).
bool has_target(const DocumentPart& part, const std::vector<TextRow>& answers);

/// The parts of a corpus that are learned, and how many documents are not whole.
struct DocumentParts {
  std::vector<DocumentPart> parts;
  std::int64_t documents = 0;
  std::int64_t longer = 0;           ///< than a row
  std::int64_t longest = 0;          ///< tokens of the longest document
  std::int64_t without_targets = 0;  ///< left out: documents of a token, or without an answer in what is kept
};

/// The documents of a corpus in parts of at most `longest` tokens. With answers, those without a token of
/// one are left out.
DocumentParts parts_of_documents(const TextCorpus& corpus, const std::vector<TextRow>& answers,
                                 std::int64_t longest, LongDocuments policy);

/// Writes the labels of a part, whose first token is at labels[0]: the tokens behind each of its tokens, with
/// answers those in answers alone. Returns how many; others stay as they are. `weights`, if it is not null,
/// gets the weight of each label's answer in the same places.
std::int64_t label_part(const TextCorpus& corpus, const std::vector<TextRow>& answers,
                        const DocumentPart& part, std::int64_t* labels, float* weights = nullptr);

/// Rows of at most `capacity` tokens, but for a single part that is longer: the parts in descending order of
/// size, each in the fullest row that has room for it (best fit decreasing). With capacity 0, each part is a
/// row.
class PackedRows {
 public:
  PackedRows(std::vector<DocumentPart> parts, std::int64_t capacity);
  std::int64_t size() const { return static_cast<std::int64_t>(ends_.size()); }
  std::span<const DocumentPart> row(std::int64_t number) const;
  /// The tokens of a row.
  std::int64_t length(std::int64_t number) const;

 private:
  std::vector<DocumentPart> parts_;  // of all rows, one row after another
  std::vector<std::size_t> ends_;    // of the rows in parts_
};

}  // namespace heed
