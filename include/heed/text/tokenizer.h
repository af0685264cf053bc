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

/// The tokens of one text or of a pair; all vectors have the same length.
struct Encoding {
  std::vector<std::int64_t> ids;
  /// The token strings; for unknown tokens, Marian gives the piece of the text.
  std::vector<std::string> tokens;
  /// First and one past the last character (code point) in the token's text; 0, 0 for added special tokens.
  /// Invalid UTF-8 counts as the U+FFFD that replaces it.
  std::vector<std::pair<std::int64_t, std::int64_t>> offsets;
  /// The model's token_type_ids.
  std::vector<std::int64_t> type_ids;
  /// 1 for added special tokens and padding, 0 for tokens of the text.
  std::vector<std::int8_t> special_tokens_mask;
  /// The text of each token: 0, 1, or -1 for added special tokens.
  std::vector<std::int8_t> sequence_ids;

  std::int64_t size() const { return static_cast<std::int64_t>(ids.size()); }
  void push(std::int64_t id, std::string token, std::pair<std::int64_t, std::int64_t> offset);
  /// Adds a special token: no offsets, marked as special.
  void push_special(std::int64_t id, std::string token, std::int64_t type_id = 0);
  void append(const Encoding& other);
  /// Tokens begin .. end - 1.
  Encoding slice(std::int64_t begin, std::int64_t end) const;
};

/// Truncation of long texts. The rest is returned as further encodings ("windows"), each beginning with the
/// last `stride` tokens of the previous one.
struct Truncation {
  enum class Strategy { longest_first, only_first, only_second };
  std::int64_t max_length = 512;  ///< including special tokens
  Strategy strategy = Strategy::longest_first;
  std::int64_t stride = 0;
  bool left = false;  ///< remove the beginning instead of the end
};

/// Padding of encodings.
struct Padding {
  std::optional<std::int64_t> length;  ///< nullopt: the longest of a batch
  std::int64_t multiple_of = 0;        ///< round the length up to a multiple of this; 0: no rounding
  std::int64_t pad_id = 0;
  std::int64_t pad_type_id = 0;
  std::string pad_token = "[PAD]";
  bool left = false;
};

/// Pads `encoding` to `longest`, or to padding.length if given; longer encodings are unchanged.
void pad(Encoding& encoding, const Padding& padding, std::int64_t longest);

/// Hugging Face's `clean_up_tokenization_spaces`: removes spaces before English punctuation and contractions.
std::string clean_up_spaces(std::string text);

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Splits `text` into tokens; `add_special_tokens` adds what the model expects around it (for example an
  /// end token). Accepts any bytes: invalid UTF-8 is first replaced by U+FFFD (replace_invalid_utf8 returns
  /// how often).
  Encoding encode(std::string_view text, bool add_special_tokens = true) const;
  /// The same for the target side of a sequence-to-sequence model, where that differs.
  Encoding encode_target(std::string_view text, bool add_special_tokens = true) const;
  /// Two texts as one input: a question and its context, for example.
  Encoding encode_pair(std::string_view first, std::string_view second, bool add_special_tokens = true) const;
  /// One text or a pair in encodings of at most `truncation.max_length` tokens: the truncated text, then the
  /// rest in windows. Throws Error when the special tokens leave no space for the text, when the stride is
  /// not smaller than that space, and when the text to truncate is too short.
  std::vector<Encoding> encode_windows(std::string_view first, std::optional<std::string_view> second,
                                       const Truncation& truncation, bool add_special_tokens = true) const;
  /// The first of these encodings: the cut text. Where the tokenizer cuts words apart, no more of a long text
  /// is tokenized than is needed. `shortened`, where given, receives whether anything was cut off. The stride
  /// is ignored.
  Encoding encode_truncated(std::string_view first, std::optional<std::string_view> second,
                            const Truncation& truncation, bool add_special_tokens = true,
                            bool* shortened = nullptr) const;
  /// Number of special tokens added around one text, or a pair.
  std::int64_t added_tokens(bool pair) const;

  /// The text of (target) ids, as the tokenizers library gives it. Throws Error when an id is not in the
  /// vocabulary.
  virtual std::string decode(std::span<const std::int64_t> ids, bool skip_special_tokens = true) const = 0;
  /// The same with clean_up_spaces() if the configuration asks for it, as in Hugging Face transformers.
  std::string decode_clean(std::span<const std::int64_t> ids, bool skip_special_tokens = true) const;
  /// The text that `ids` add to that of `prompt`: what the text of all has beyond that of the prompt alone,
  /// so that a space between the two is kept where decoding `ids` alone would drop it. clean_up_spaces()
  /// where the configuration asks for it, within this text.
  std::string decode_continuation(std::span<const std::int64_t> prompt, std::span<const std::int64_t> ids,
                                  bool skip_special_tokens = true) const;
  virtual bool cleans_up_spaces() const { return false; }

  /// Number of ids: 0 .. vocab_size() - 1 are tokens, except for gaps in a file.
  virtual std::int64_t vocab_size() const = 0;
  /// The token of a (target) id. Throws Error when the id is not in the vocabulary.
  virtual std::string token(std::int64_t id) const = 0;
  /// The (source) id of a token of the vocabulary.
  virtual std::optional<std::int64_t> token_to_id(std::string_view token) const = 0;
  /// Whether decoding omits this (target) id with `skip_special_tokens`. Accepts any id.
  virtual bool is_special(std::int64_t id) const = 0;

  virtual std::optional<std::int64_t> bos_id() const { return std::nullopt; }
  virtual std::optional<std::int64_t> eos_id() const { return std::nullopt; }
  virtual std::optional<std::int64_t> unk_id() const { return std::nullopt; }
  virtual std::optional<std::int64_t> pad_id() const { return std::nullopt; }
  virtual std::optional<std::int64_t> mask_id() const { return std::nullopt; }
  virtual std::optional<std::int64_t> cls_id() const { return std::nullopt; }
  virtual std::optional<std::int64_t> sep_id() const { return std::nullopt; }
  /// The maximum number of tokens, if the configuration has one.
  virtual std::optional<std::int64_t> model_max_length() const { return std::nullopt; }
  /// Truncation and padding settings of the tokenizer's file. encode() applies neither.
  virtual std::optional<Truncation> truncation() const { return std::nullopt; }
  virtual std::optional<Padding> padding() const { return std::nullopt; }

  /// Writes the tokenizer's files, in Hugging Face layout, into `directory` (created if missing).
  virtual void save(const std::filesystem::path& directory) const = 0;

 protected:
  /// The tokens of valid UTF-8 text alone: type ids, masks and sequence ids may be left empty.
  virtual Encoding cut(std::string_view text) const = 0;
  virtual Encoding cut_target(std::string_view text) const { return cut(text); }
  /// The tokens of `text`, or the first of them: at least `count`, and the same as cut() gives.
  virtual Encoding cut_beginning(std::string_view text, std::int64_t count) const {
    static_cast<void>(count);
    return cut(text);
  }
  /// One encoding made of one or two, with or without special tokens. Both come with type ids, masks and
  /// sequence ids as those of the first and the second text.
  virtual Encoding assemble(Encoding first, std::optional<Encoding> second,
                            bool add_special_tokens) const = 0;
  virtual Encoding assemble_target(Encoding text, bool add_special_tokens) const {
    return assemble(std::move(text), std::nullopt, add_special_tokens);
  }
};

/// Loads the tokenizer of a model directory in Hugging Face layout; the kind follows from the files there:
/// source.spm, target.spm and vocab.json make a Marian tokenizer (heed/text/marian.h). Throws Error naming
/// the file that is missing, malformed or of a kind that cannot be read.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& directory);

/// Turns ids into text as they come. What is handed out joins to what decode_clean() gives for all of them
/// together; after a prompt, to what decode_continuation() gives. Text is held back while it may still
/// change: incomplete UTF-8, spaces that may be cleaned up.
class StreamingDecoder {
 public:
  /// `tokenizer` must outlive this.
  explicit StreamingDecoder(const Tokenizer& tokenizer, bool skip_special_tokens = true)
      : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens) {}
  /// The ids before the first pushed one, whose text is not handed out.
  void begin_after(std::span<const std::int64_t> prompt);
  /// The text that is certain now. Throws Error when the id is not in the vocabulary.
  std::string push(std::int64_t id);
  /// The rest, after the last id.
  std::string finish();

 private:
  /// The text of the ids from `window_` on, as far as it is new.
  std::string fresh_text(bool last);
  std::string release(std::string text, bool last);

  const Tokenizer& tokenizer_;
  bool skip_special_tokens_;
  std::vector<std::int64_t> ids_;
  std::size_t window_ = 0;    // where decoding begins: far enough back for the text to join
  std::size_t finished_ = 0;  // ids before this one are in the text handed out
  std::string held_;          // text that may still be cleaned up
};

}  // namespace heed
