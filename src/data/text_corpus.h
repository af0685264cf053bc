// TextCorpus: the token ids of a corpus of texts, which may be larger than memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "files/spilled_array.h"
#include "heed/data/data_options.h"
#include "heed/text/tokenizer.h"

namespace heed {

/// Tokens begin .. end - 1 of a corpus.
using TextRow = std::pair<std::int64_t, std::int64_t>;

/// Threads: several may read one object at once.
class TextCorpus {
 public:
  std::span<const std::int32_t> ids() const { return ids_; }
  /// The document of number i is ids()[ends()[i - 1] .. ends()[i] - 1].
  const std::vector<std::int64_t>& ends() const { return ends_; }
  /// The tokens begin .. end - 1 of each answer of conversations, in ascending order.
  const std::vector<TextRow>& answers() const { return answers_; }
  /// The weight of the loss of each answer; empty: all 1.
  const std::vector<double>& weights() const { return weights_; }
  /// The tokens begin .. end - 1, and the parts of documents and answers among them.
  TextCorpus slice(std::int64_t begin, std::int64_t end) const;

 private:
  friend class TextCorpusWriter;
  std::shared_ptr<const SpilledArray<std::int32_t>> all_;
  std::span<const std::int32_t> ids_;
  std::vector<std::int64_t> ends_;
  std::vector<TextRow> answers_;
  std::vector<double> weights_;
};

/// Cuts every document of a corpus into rows of at most `longest` tokens.
std::vector<TextRow> rows_of_documents(const TextCorpus& corpus, std::int64_t longest);

/// Part of a text: a document comes in one part, or, if it is long, in several that end at line ends; a line
/// of more than 64 KiB in several that end before a space, or anywhere between characters where there is
/// none.
struct TextPart {
  std::string text;
  std::string where = {};  ///< of a conversation: FILE:LINE
  bool ends_document = true;
};

/// The documents of data.train, data.dev or data.test one by one: of a text file, of all files of a folder in
/// the order of their names, or of the lines of a JSON lines file. Conversations come as the lines' JSON.
class TextReader {
 public:
  TextReader(std::filesystem::path path, const DataOptions& data);
  ~TextReader();
  TextReader(const TextReader&) = delete;
  TextReader& operator=(const TextReader&) = delete;
  /// Reads the next part, or returns false at the end. Throws Error naming file and line if the text is not
  /// UTF-8, or a JSON line has no text; and one naming the path at the end if there was no text at all.
  bool next(TextPart& part);
  const std::filesystem::path& path() const;
  /// Zeros and other control codes in what was read, which texts do not have.
  std::int64_t control_bytes() const;
  /// The lines that were read with U+FFFD (data::has_lost_characters).
  std::int64_t lossy_lines() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The tokens of a part, and which of them are answers.
struct TokenizedPart {
  std::vector<std::int64_t> ids;
  std::vector<TextRow> answers = {};
  std::vector<double> weights = {};  ///< of the losses of the answers; empty: all 1
};

/// What cannot be used of a corpus.
struct UnusableParts {
  std::int64_t parts = 0;       ///< of the corpus
  std::int64_t unusable = 0;    ///< those that were skipped
  std::string first_message{};  ///< why the first of them
};

/// Tokenizes a corpus by a function that all threads call; what it gives for a part are documents, if there
/// are several. A part for which it throws Error is skipped if `unusable` is there to count it. Many ids are
/// kept in a file in `folder` (SpilledBytes). Throws Error if there are no tokens.
TextCorpus tokenize_texts(TextReader& reader,
                          const std::function<std::vector<TokenizedPart>(const TextPart&)>& tokenize,
                          const std::filesystem::path& folder, UnusableParts* unusable = nullptr);
/// The same with a tokenizer, without special tokens but for `separator` (if not negative) at the
/// end of every document.
TextCorpus tokenize_texts(TextReader& reader, const Tokenizer& tokenizer, std::int64_t separator,
                          const std::filesystem::path& folder);

}  // namespace heed
