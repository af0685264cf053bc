// Tokenizer: converts text to token ids and back, for every kind of tokenizer. Several threads may use one
// loaded tokenizer at the same time.
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

#include "heed/export.h"
#include "heed/text/unicode.h"

namespace HEED_API heed {

class ModelFiles;

/// The tokens of one text or of a pair; all vectors have the same length.
struct Encoding {
  std::vector<std::int64_t> ids;
  /// The token strings; for unknown tokens, Marian gives the piece of the text.
  std::vector<std::string> tokens;
  /// Index of the first character (code point) of the token and one past its last; (0, 0) for added special
  /// tokens. Each maximal invalid part of UTF-8 counts as the one U+FFFD that replaces it.
  std::vector<std::pair<std::int64_t, std::int64_t>> offsets;
  /// The model's token_type_ids.
  std::vector<std::int64_t> type_ids;
  /// 1 for added special tokens and padding, 0 for tokens of the text.
  std::vector<std::int8_t> special_tokens_mask;
  /// Which text each token comes from: 0 or 1, or -1 for added special tokens.
  std::vector<std::int8_t> sequence_ids;

  std::int64_t size() const { return static_cast<std::int64_t>(ids.size()); }
  void push(std::int64_t id, std::string token, std::pair<std::int64_t, std::int64_t> offset);
  /// Appends a special token: it has no offsets and is marked as special.
  void push_special(std::int64_t id, std::string token, std::int64_t type_id = 0);
  void append(const Encoding& other);
  /// Returns the tokens begin .. end - 1.
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
  std::optional<std::int64_t> length;  ///< nullopt: the length of the longest encoding in the batch
  std::int64_t multiple_of = 0;        ///< round the length up to a multiple of this; 0: no rounding
  std::int64_t pad_id = 0;
  std::int64_t pad_type_id = 0;
  std::string pad_token = "[PAD]";
  bool left = false;
};

/// Pads `encoding` to padding.length, or to `longest` if padding has no length. Longer encodings are
/// unchanged.
void pad(Encoding& encoding, const Padding& padding, std::int64_t longest);

/// A language of a model that translates between several.
struct Language {
  std::string name;   ///< as users of the model spell it: fr_XX (mBART), fra_Latn (NLLB), fr (M2M100)
  std::string token;  ///< the token that names it in a text: the same, or __fr__ (M2M100)
  std::int64_t id = 0;
};

/// The languages of a tokenizer, and the two between which it is used.
struct Languages {
  std::vector<Language> list;      ///< by ascending id
  Language source;                 ///< its token is added by encode()
  std::optional<Language> target;  ///< its token is added by encode_target(); if missing, the source's is
  /// How the decoder learns the target language. False: its token is the first generated token
  /// (forced_bos_token_id). True: it is the start token (decoder_start_token_id), as in mBART.
  bool starts_decoder = false;

  /// Returns the language of this name or token, or null if there is none.
  const Language* find(std::string_view name) const;
};

/// Removes spaces before English punctuation and contractions, as Hugging Face's
/// `clean_up_tokenization_spaces` does.
std::string clean_up_spaces(std::string text);

/// Threads: several may use one object at once, except set_languages().
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Splits `text` into tokens. `add_special_tokens` adds those that the model expects around a text (an end
  /// token, for example). Accepts any bytes: invalid UTF-8 is first replaced by U+FFFD (replace_invalid_utf8
  /// returns how often).
  Encoding encode(std::string_view text, bool add_special_tokens = true) const;
  /// The same for the target side of a sequence-to-sequence model, if that differs.
  Encoding encode_target(std::string_view text, bool add_special_tokens = true) const;
  /// The same for a UTF-8 text in which some spans are user data (RenderedChat::data of
  /// heed/chat/chat_template.h). Added tokens are recognized only outside these spans, so that users cannot
  /// write special tokens. `data` is ascending. Throws Error if the text is not UTF-8 or the tokenizer is
  /// Marian's.
  Encoding encode_chat(std::string_view text, std::span<const TextSpan> data,
                       bool add_special_tokens = false) const;
  /// Encodes two texts as one input, for example a question and its context.
  Encoding encode_pair(std::string_view first, std::string_view second, bool add_special_tokens = true) const;
  /// Encodes one text or a pair as encodings of at most `truncation.max_length` tokens: the truncated text
  /// first, then the rest in windows. Throws Error if the special tokens leave no space for the text, if the
  /// stride is not smaller than that space, or if the text to truncate is too short.
  std::vector<Encoding> encode_windows(std::string_view first, std::optional<std::string_view> second,
                                       const Truncation& truncation, bool add_special_tokens = true) const;
  /// Returns the first of these encodings: the truncated text. If the tokenizer splits text into words, only
  /// as much of a long text is tokenized as is needed. `shortened`, if given, is set to whether anything was
  /// cut off. The stride is ignored.
  Encoding encode_truncated(std::string_view first, std::optional<std::string_view> second,
                            const Truncation& truncation, bool add_special_tokens = true,
                            bool* shortened = nullptr) const;
  /// Returns the number of special tokens added around one text or a pair.
  std::int64_t added_tokens(bool pair) const;

  /// Returns the text of (target) ids, as the tokenizers library decodes them. Throws Error if an id is not
  /// in the vocabulary.
  virtual std::string decode(std::span<const std::int64_t> ids, bool skip_special_tokens = true) const = 0;
  /// The same, followed by clean_up_spaces() if the configuration asks for it, as in Hugging Face
  /// transformers.
  std::string decode_clean(std::span<const std::int64_t> ids, bool skip_special_tokens = true) const;
  /// Returns the text that `ids` add to `prompt`: the decoded text of both together, without the decoded text
  /// of the prompt. Unlike decoding `ids` alone, this keeps a space between the two. Applies
  /// clean_up_spaces() to this text if the configuration asks for it.
  std::string decode_continuation(std::span<const std::int64_t> prompt, std::span<const std::int64_t> ids,
                                  bool skip_special_tokens = true) const;
  virtual bool cleans_up_spaces() const { return false; }

  /// Returns the number of ids. Each of 0 .. vocab_size() - 1 is a token, except for gaps in a file.
  virtual std::int64_t vocab_size() const = 0;
  /// Returns the token of a (target) id. Throws Error if the id is not in the vocabulary.
  virtual std::string token(std::int64_t id) const = 0;
  /// Returns the (source) id of a token, or nullopt if the vocabulary does not contain it.
  virtual std::optional<std::int64_t> token_to_id(std::string_view token) const = 0;
  /// Returns true if decoding with `skip_special_tokens` omits this (target) id. Accepts any id.
  virtual bool is_special(std::int64_t id) const = 0;

  virtual std::optional<std::int64_t> bos_id() const { return std::nullopt; }
  virtual std::optional<std::int64_t> eos_id() const { return std::nullopt; }
  virtual std::optional<std::int64_t> unk_id() const { return std::nullopt; }
  virtual std::optional<std::int64_t> pad_id() const { return std::nullopt; }
  virtual std::optional<std::int64_t> mask_id() const { return std::nullopt; }
  virtual std::optional<std::int64_t> cls_id() const { return std::nullopt; }
  virtual std::optional<std::int64_t> sep_id() const { return std::nullopt; }
  /// Returns the token between words of a character tokenizer (wav2vec 2.0).
  virtual std::optional<std::int64_t> word_delimiter_id() const { return std::nullopt; }
  /// Returns the maximum number of tokens, if the configuration has one.
  virtual std::optional<std::int64_t> model_max_length() const { return std::nullopt; }
  /// Returns the languages of a model that translates between several; null for other tokenizers.
  virtual const Languages* languages() const { return nullptr; }
  /// Chooses the languages whose tokens encode() and encode_target() add, by name or token; nullopt leaves
  /// what is set. At first they are src_lang and tgt_lang of tokenizer_config.json, or the family's usual
  /// source. Throws Error naming the nearest languages if one is not in the list, or if the tokenizer has
  /// no languages. Threads: not while another uses the tokenizer.
  virtual void set_languages(std::optional<std::string_view> source, std::optional<std::string_view> target);

  /// The truncation and padding settings of the tokenizer's file. encode() applies neither.
  virtual std::optional<Truncation> truncation() const { return std::nullopt; }
  virtual std::optional<Padding> padding() const { return std::nullopt; }

  /// Writes the tokenizer's files, in Hugging Face layout, into `directory` (created if missing).
  virtual void save(const std::filesystem::path& directory) const = 0;

 protected:
  /// Tokenizes valid UTF-8 text without special tokens. Type ids, masks and sequence ids may be left empty.
  virtual Encoding tokenize(std::string_view text) const = 0;
  virtual Encoding tokenize_target(std::string_view text) const { return tokenize(text); }
  /// Tokenizes a text in which the spans of `data` contain no added tokens. Throws Error if the kind of
  /// tokenizer does not support this.
  virtual Encoding tokenize_chat(std::string_view text, std::span<const TextSpan> data) const;
  /// Returns at least the first `count` tokens of `text`, or all if there are fewer; they equal those of
  /// tokenize().
  virtual Encoding tokenize_prefix(std::string_view text, std::int64_t count) const {
    static_cast<void>(count);
    return tokenize(text);
  }
  /// Makes one encoding of one or two, with or without special tokens. Their type ids, masks and sequence ids
  /// are already those of a first and a second text.
  virtual Encoding post_process(Encoding first, std::optional<Encoding> second,
                                bool add_special_tokens) const = 0;
  virtual Encoding post_process_target(Encoding text, bool add_special_tokens) const {
    return post_process(std::move(text), std::nullopt, add_special_tokens);
  }
};

/// Loads the tokenizer of a model directory in Hugging Face layout. The kind follows from the files there:
/// source.spm, target.spm and vocab.json make a Marian tokenizer (load_marian_tokenizer()). Throws Error
/// naming the file that is missing, malformed or of an unsupported kind.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& directory);
std::unique_ptr<Tokenizer> load_tokenizer(const ModelFiles& model);

/// Loads source.spm, target.spm and vocab.json; tokenizer_config.json and special_tokens_map.json if they
/// exist; and target_vocab.json if tokenizer_config.json sets `separate_vocabs`.
///
/// Encoding appends `</s>`. A language code `>>xx<<` at the start of a text is one token, and so are special
/// tokens anywhere in it. Pieces that are not in the vocabulary become `<unk>`. Decoding takes target ids,
/// joins their pieces with target.spm and strips white space at both ends. With separate vocabularies,
/// vocab_size() and the special ids are those of the source, while decode() and token() take target ids.
///
/// Throws Error naming the file and the field if something is missing, malformed or contradictory.
std::unique_ptr<Tokenizer> load_marian_tokenizer(const std::filesystem::path& directory);
std::unique_ptr<Tokenizer> load_marian_tokenizer(const ModelFiles& model);

/// Decodes ids one by one. The returned parts join to what decode_clean() gives for all ids together, or,
/// after a prompt, to what decode_continuation() gives. Text is held back while it may still change:
/// incomplete UTF-8, and spaces that may be cleaned up.
/// Threads: one at a time.
class StreamingDecoder {
 public:
  /// `tokenizer` must outlive this.
  explicit StreamingDecoder(const Tokenizer& tokenizer, bool skip_special_tokens = true)
      : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens) {}
  /// Sets the ids that precede the first pushed one. Their text is not returned.
  void begin_after(std::span<const std::int64_t> prompt);
  /// Returns the text that has become final. Throws Error if the id is not in the vocabulary.
  std::string push(std::int64_t id);
  /// Returns the remaining text after the last id.
  std::string finish();

 private:
  /// Returns the text of the ids from `window_` on, as far as it has not been returned.
  std::string fresh_text(bool last);
  std::string release(std::string text, bool last);

  const Tokenizer& tokenizer_;
  bool skip_special_tokens_;
  std::vector<std::int64_t> ids_;
  std::size_t window_ = 0;    // where decoding begins: far enough back for the parts to join
  std::size_t finished_ = 0;  // the text of the ids before this one has been returned
  std::string held_;          // text that may still be cleaned up
};

/// Returns for each id the bytes that its token adds to a text after other tokens: part of a character, for
/// tokens of byte-level BPE and bytes of SentencePiece (`<0xC3>`). Empty for special tokens, ids without a
/// token, and tokens that add nothing.
std::vector<std::string> token_bytes(const Tokenizer& tokenizer);

}  // namespace heed
