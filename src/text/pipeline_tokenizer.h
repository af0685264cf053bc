// PipelineTokenizer: executes a tokenizer.json: added tokens, normalizer, pre-tokenizer, model,
// post-processor and decoder. All but the model are optional.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heed/text/tokenizer.h"
#include "heed/text/unicode.h"
#include "text/added_tokens.h"
#include "text/decoders.h"
#include "text/languages.h"
#include "text/normalizers.h"
#include "text/post_processors.h"
#include "text/pre_tokenizers.h"
#include "text/token_model.h"
#include "text/tokenizer_config.h"

namespace heed {

struct Pipeline {
  std::string where;  ///< the file it was loaded from
  std::unique_ptr<const Normalizer> normalizer;
  std::unique_ptr<const PreTokenizer> pre_tokenizer;
  std::unique_ptr<const TokenModel> model;
  std::unique_ptr<const PostProcessor> post_processor;
  std::unique_ptr<const TokenDecoder> decoder;
  AddedTokens added;
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;
};

/// Parses a whole tokenizer.json. Throws Error naming file and field if it is malformed or has a component of
/// an unknown kind.
Pipeline parse_pipeline(const JsonField& document);

class PipelineTokenizer final : public Tokenizer {
 public:
  /// `config` names the roles of tokens and may change which tokens the pipeline adds.
  PipelineTokenizer(Pipeline pipeline, TokenizerConfig config, TokenizerFiles files);

  std::string decode(std::span<const std::int64_t> ids, bool skip_special_tokens) const override;
  bool cleans_up_spaces() const override {
    return config_.clean_up_spaces && !pipeline_.model->preserves_spaces();
  }
  std::int64_t vocab_size() const override { return end_id_; }
  std::string token(std::int64_t id) const override;
  std::optional<std::int64_t> token_to_id(std::string_view token) const override;
  bool is_special(std::int64_t id) const override;
  std::optional<std::int64_t> bos_id() const override { return special_id(SpecialRole::bos); }
  std::optional<std::int64_t> eos_id() const override { return special_id(SpecialRole::eos); }
  std::optional<std::int64_t> unk_id() const override { return special_id(SpecialRole::unk); }
  std::optional<std::int64_t> pad_id() const override { return special_id(SpecialRole::pad); }
  std::optional<std::int64_t> mask_id() const override { return special_id(SpecialRole::mask); }
  std::optional<std::int64_t> cls_id() const override { return special_id(SpecialRole::cls); }
  std::optional<std::int64_t> sep_id() const override { return special_id(SpecialRole::sep); }
  std::optional<std::int64_t> model_max_length() const override { return config_.model_max_length; }
  std::optional<Truncation> truncation() const override { return pipeline_.truncation; }
  std::optional<Padding> padding() const override { return pipeline_.padding; }
  const Languages* languages() const override { return marks_ ? &marks_->languages() : nullptr; }
  void set_languages(std::optional<std::string_view> source, std::optional<std::string_view> target) override;
  void save(const std::filesystem::path& directory) const override { files_.save(directory); }

 protected:
  Encoding cut(std::string_view text) const override;
  Encoding cut_beginning(std::string_view text, std::int64_t count) const override;
  Encoding assemble(Encoding first, std::optional<Encoding> second, bool add_special_tokens) const override;
  Encoding assemble_target(Encoding text, bool add_special_tokens) const override;

 private:
  std::optional<std::int64_t> special_id(SpecialRole role) const {
    return roles_[static_cast<std::size_t>(role)];
  }
  void find_roles();
  void find_language_marks();
  /// Normalizes, pre-tokenizes and tokenizes a part without added tokens of the original text.
  void tokenize_part(std::string_view part, std::uint32_t origin, const CharacterOffsets& characters,
                     Encoding& encoding) const;
  /// Returns true if the tokens of text[0, at) are the first tokens of `text`, for an `at` from
  /// find_word_end().
  bool separates(std::string_view text, std::size_t at) const;
  void cut_pieces(Pieces pieces, const CharacterOffsets& characters, Encoding& encoding) const;
  /// Returns the token of an id, or nullopt if the id has none.
  std::optional<std::string_view> find_token(std::int64_t id) const;

  Pipeline pipeline_;
  TokenizerConfig config_;
  TokenizerFiles files_;
  std::int64_t end_id_ = 0;
  std::optional<LanguageMarks> marks_;  // replaces the post-processor
  std::array<std::optional<std::int64_t>, kSpecialRoles> roles_;
};

}  // namespace heed
