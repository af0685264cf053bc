// PipelineTokenizer: executes the pipeline that every kind of tokenizer file describes: added tokens,
// normalizer, pre-tokenizer, model, post-processor and decoder.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heed/text/tokenizer.h"
#include "heed/text/unicode.h"
#include "text/algorithms/token_model.h"
#include "text/loading/tokenizer_config.h"
#include "text/pipeline/added_tokens.h"
#include "text/pipeline/languages.h"
#include "text/pipeline/stages.h"

namespace heed {

/// The parts that turn a text into tokens, and tokens into a text. All but the model are optional.
struct Pipeline {
  std::string where;  ///< the file it was loaded from
  std::unique_ptr<const Normalizer> normalizer;
  std::unique_ptr<const PreTokenizer> pre_tokenizer;
  std::unique_ptr<const TokenModel> model;
  std::unique_ptr<const PostProcessor> post_processor;
  std::unique_ptr<const TokenDecoder> decoder;
  AddedTokens added;
  std::vector<std::int64_t> special_ids;  ///< of tokens that are special besides the added ones that say so
  std::int64_t unused_ids = 0;            ///< number of ids after those of all tokens
  /// Where set, ids without a token have this one's text, and decode() refuses those from end_id() on.
  /// Otherwise it leaves out ids without a token, as the tokenizers library does.
  std::optional<std::int32_t> default_id;
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;

  /// See Tokenizer. The text must be valid UTF-8. `added` must be prepared.
  /// No added token is matched where it overlaps a span of `data`.
  Encoding tokenize(std::string_view text, std::span<const TextSpan> data = {}) const;
  Encoding tokenize_prefix(std::string_view text, std::int64_t count) const;
  std::string decode(std::span<const std::int64_t> ids, bool skip_special_tokens) const;
  std::string token(std::int64_t id) const;
  std::optional<std::int64_t> token_to_id(std::string_view token) const;
  bool is_special(std::int64_t id) const;
  /// One past the highest id.
  std::int64_t end_id() const;

 private:
  /// Returns an id that has a token: this one, or that whose text it has; or -1 if there is none.
  std::int64_t with_token(std::int64_t id) const;
  /// Returns the token of such an id.
  std::string_view token_of(std::int64_t id) const;
  /// Normalizes, pre-tokenizes and tokenizes a part without added tokens of the original text.
  void tokenize_part(std::string_view part, std::uint32_t origin, const CharacterOffsets& characters,
                     std::span<const TextSpan> data, Encoding& encoding) const;
  void tokenize_pieces(Pieces pieces, const CharacterOffsets& characters, Encoding& encoding) const;
  /// Returns a position at or after `from` such that the tokens of text[0, end) are the first tokens of
  /// `text`, or the text's size if none is known.
  std::size_t safe_end(std::string_view text, std::size_t from) const;
  /// Returns true if an `at` from find_word_end() is such a position.
  bool separates(std::string_view text, std::size_t at) const;
};

/// Parses a whole tokenizer.json. Throws Error naming file and field if it is malformed or has a component of
/// an unknown kind.
Pipeline parse_pipeline(const JsonField& document);

class PipelineTokenizer final : public Tokenizer {
 public:
  /// `config` names the roles of tokens and may change which tokens the pipeline adds. `target` is for the
  /// texts of the target side and for decoding, if that side differs.
  PipelineTokenizer(Pipeline pipeline, TokenizerConfig config, TokenizerFiles files,
                    std::optional<Pipeline> target = std::nullopt);

  std::string decode(std::span<const std::int64_t> ids, bool skip_special_tokens) const override {
    return target().decode(ids, skip_special_tokens);
  }
  bool cleans_up_spaces() const override {
    return config_.clean_up_spaces && !source_.model->preserves_spaces();
  }
  std::int64_t vocab_size() const override { return source_.end_id(); }
  std::string token(std::int64_t id) const override { return target().token(id); }
  std::optional<std::int64_t> token_to_id(std::string_view token) const override {
    return source_.token_to_id(token);
  }
  bool is_special(std::int64_t id) const override { return target().is_special(id); }
  std::optional<std::int64_t> bos_id() const override { return special_id(SpecialRole::bos); }
  std::optional<std::int64_t> eos_id() const override { return special_id(SpecialRole::eos); }
  std::optional<std::int64_t> unk_id() const override { return special_id(SpecialRole::unk); }
  std::optional<std::int64_t> pad_id() const override { return special_id(SpecialRole::pad); }
  std::optional<std::int64_t> mask_id() const override { return special_id(SpecialRole::mask); }
  std::optional<std::int64_t> cls_id() const override { return special_id(SpecialRole::cls); }
  std::optional<std::int64_t> sep_id() const override { return special_id(SpecialRole::sep); }
  std::optional<std::int64_t> word_delimiter_id() const override {
    return config_.word_delimiter.empty() ? std::nullopt : token_to_id(config_.word_delimiter);
  }
  std::optional<std::int64_t> model_max_length() const override { return config_.model_max_length; }
  std::optional<Truncation> truncation() const override { return source_.truncation; }
  std::optional<Padding> padding() const override { return source_.padding; }
  const Languages* languages() const override { return marks_ ? &marks_->languages() : nullptr; }
  void set_languages(std::optional<std::string_view> source, std::optional<std::string_view> target) override;
  void save(const std::filesystem::path& directory) const override { files_.save(directory); }

 protected:
  Encoding tokenize(std::string_view text) const override { return source_.tokenize(text); }
  Encoding tokenize_target(std::string_view text) const override { return target().tokenize(text); }
  Encoding tokenize_chat(std::string_view text, std::span<const TextSpan> data) const override {
    return source_.tokenize(text, data);
  }
  Encoding tokenize_prefix(std::string_view text, std::int64_t count) const override {
    return source_.tokenize_prefix(text, count);
  }
  Encoding post_process(Encoding first, std::optional<Encoding> second,
                        bool add_special_tokens) const override;
  Encoding post_process_target(Encoding text, bool add_special_tokens) const override;

 private:
  const Pipeline& target() const { return target_ ? *target_ : source_; }
  std::optional<std::int64_t> special_id(SpecialRole role) const {
    return roles_[static_cast<std::size_t>(role)];
  }
  void find_roles();
  void find_language_marks();

  Pipeline source_;
  std::optional<Pipeline> target_;
  TokenizerConfig config_;
  TokenizerFiles files_;
  std::optional<LanguageMarks> marks_;  // replaces the post-processor
  std::array<std::optional<std::int64_t>, kSpecialRoles> roles_;
};

}  // namespace heed
