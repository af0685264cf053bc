// Tokenizer: text to token ids and back, whatever the kind. One loaded tokenizer may be used by many threads
// at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heed {

/// One text as tokens; the three vectors have the same length.
struct Encoding {
  std::vector<std::int64_t> ids;
  /// What each token is; where the id is that of the unknown token, the piece of text it stands for.
  std::vector<std::string> tokens;
  /// First and one past the last character (code point of the text) of each token; 0, 0 for tokens that were
  /// added. Bytes that are not UTF-8 count as the U+FFFD they are replaced by.
  std::vector<std::pair<std::int64_t, std::int64_t>> offsets;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Splits `text`; `add_special_tokens` adds what the model expects around it (an end token, for example).
  /// Takes any bytes: invalid UTF-8 is replaced by U+FFFD first (replace_invalid_utf8 tells how often).
  virtual Encoding encode(std::string_view text, bool add_special_tokens = true) const = 0;
  /// The same for the target side of a sequence-to-sequence model, where that differs.
  virtual Encoding encode_target(std::string_view text, bool add_special_tokens = true) const {
    return encode(text, add_special_tokens);
  }
  /// The text of (target) ids. Throws Error when an id is not in the vocabulary.
  virtual std::string decode(std::span<const std::int64_t> ids, bool skip_special_tokens = true) const = 0;

  /// Number of ids: all of 0 .. vocab_size() - 1 are tokens.
  virtual std::int64_t vocab_size() const = 0;
  /// The token of a (target) id. Throws Error when the id is not in the vocabulary.
  virtual std::string token(std::int64_t id) const = 0;
  virtual std::optional<std::int64_t> bos_id() const { return std::nullopt; }
  virtual std::optional<std::int64_t> eos_id() const { return std::nullopt; }
  virtual std::optional<std::int64_t> unk_id() const { return std::nullopt; }
  virtual std::optional<std::int64_t> pad_id() const { return std::nullopt; }

  /// Writes the tokenizer's files, in Hugging Face layout, into `directory` (made where it is missing).
  virtual void save(const std::filesystem::path& directory) const = 0;
};

/// Loads the tokenizer of a model directory in Hugging Face layout; the kind follows from the files there:
/// source.spm, target.spm and vocab.json make a Marian tokenizer (heed/text/marian.h). Throws Error naming
/// the file that is missing, malformed or of a kind that cannot be read.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& directory);

}  // namespace heed
