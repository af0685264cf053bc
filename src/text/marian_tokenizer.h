// MarianTokenizer: SentencePiece models split text into pieces; vocabularies map the pieces to ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/text/tokenizer.h"
#include "heed/text/unicode.h"
#include "text/sentencepiece_model.h"
#include "text/vocabulary.h"

namespace heed {

/// The settings of tokenizer_config.json that change the tokenizer's behaviour.
struct MarianTokenizerConfig {
  struct AddedToken {
    std::int64_t id;
    std::string content;
    bool special;
  };
  std::string eos = "</s>";
  std::string unk = "<unk>";
  std::string pad = "<pad>";
  std::vector<AddedToken> added;  // by ascending id
  bool separate_vocabs = false;
  bool clean_up_spaces = false;
  std::optional<std::int64_t> model_max_length;
  nlohmann::ordered_json json = nlohmann::ordered_json::object();  // the whole file, to be saved again

  /// Reads tokenizer_config.json, and special_tokens_map.json for settings that the former lacks. Both may be
  /// missing.
  static MarianTokenizerConfig load(const std::filesystem::path& directory);
  /// Returns `vocabulary` with the added tokens that follow it. Throws Error if the two contradict each
  /// other.
  Vocabulary extend(Vocabulary vocabulary, const std::string& where) const;
};

/// One language's side: its pieces, their ids, and its special tokens.
class MarianSide {
 public:
  /// `where` names the vocabulary's file. Throws Error if the vocabulary lacks the end or unknown token.
  MarianSide(std::shared_ptr<const SentencePieceModel> model, std::shared_ptr<const Vocabulary> vocabulary,
             const MarianTokenizerConfig& config, const std::string& where);

  Encoding cut(std::string_view text) const;
  /// See Tokenizer::cut_beginning.
  Encoding cut_beginning(std::string_view text, std::int64_t count) const;
  std::string decode(std::span<const std::int64_t> ids, bool skip_special_tokens) const;

  const SentencePieceModel& model() const { return *model_; }
  const Vocabulary& vocabulary() const { return *vocabulary_; }
  std::int64_t eos() const { return eos_; }
  std::int64_t unk() const { return unk_; }
  std::optional<std::int64_t> pad() const { return pad_; }
  bool is_special(std::int64_t id) const {
    return id >= 0 && id < vocabulary_->size() && special_[static_cast<std::size_t>(id)];
  }

 private:
  /// Returns the next marker from `from` on and where it begins, or the end of the text and an empty string.
  std::pair<std::size_t, std::string_view> find_marker(std::string_view text, std::size_t from) const;
  /// Tokenizes text[begin, end), which contains no marker.
  void encode_segment(std::string_view text, std::size_t begin, std::size_t end,
                      const CharacterOffsets& characters, Encoding& encoding) const;
  std::int64_t id_of(std::string_view token) const { return vocabulary_->find(token).value_or(unk_); }

  std::shared_ptr<const SentencePieceModel> model_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<std::string> markers_;  // tokens that are matched in a text before it is split; longest first
  bool markers_keep_words_ = true;    // no marker reaches across a word end
  std::string marker_starts_;         // the markers' first bytes
  std::vector<bool> special_;         // per id
  std::vector<std::int64_t> ids_;     // per piece of the model
  std::int64_t eos_ = 0;
  std::int64_t unk_ = 0;
  std::optional<std::int64_t> pad_;
};

class MarianTokenizer : public Tokenizer {
 public:
  MarianTokenizer(MarianTokenizerConfig config, MarianSide source, MarianSide target);

  std::string decode(std::span<const std::int64_t> ids, bool skip_special_tokens) const override;
  std::int64_t vocab_size() const override { return source_.vocabulary().size(); }
  std::string token(std::int64_t id) const override { return target_.vocabulary().token(id, "token"); }
  std::optional<std::int64_t> token_to_id(std::string_view token) const override {
    return source_.vocabulary().find(token);
  }
  bool is_special(std::int64_t id) const override { return target_.is_special(id); }
  std::optional<std::int64_t> eos_id() const override { return source_.eos(); }
  std::optional<std::int64_t> unk_id() const override { return source_.unk(); }
  std::optional<std::int64_t> pad_id() const override { return source_.pad(); }
  std::optional<std::int64_t> model_max_length() const override { return config_.model_max_length; }
  void save(const std::filesystem::path& directory) const override;

 protected:
  Encoding cut(std::string_view text) const override { return source_.cut(text); }
  Encoding cut_target(std::string_view text) const override { return target_.cut(text); }
  Encoding cut_beginning(std::string_view text, std::int64_t count) const override {
    return source_.cut_beginning(text, count);
  }
  Encoding assemble(Encoding first, std::optional<Encoding> second, bool add_special_tokens) const override;
  Encoding assemble_target(Encoding text, bool add_special_tokens) const override;

 private:
  MarianTokenizerConfig config_;
  MarianSide source_;
  MarianSide target_;
};

}  // namespace heed
