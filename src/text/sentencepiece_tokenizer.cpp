// Tokenizers that consist of a SentencePiece model and little else, such as LLaMA's tokenizer.model. Special
// tokens are matched in the text first; SentencePiece tokenizes each part between them as if it stood alone,
// which Hugging Face transformers calls the legacy behaviour. A model without any configuration is used by
// SentencePiece's own rules: no special tokens are matched in a text.
#include <fmt/format.h>

#include <algorithm>

#include "heed/error.h"
#include "heed/text/unicode.h"
#include "text/loaders.h"
#include "text/post_processors.h"
#include "text/sentencepiece_model.h"
#include "text/tokenizer_config.h"

namespace heed {
namespace {

class SentencePieceTokenizer final : public Tokenizer {
 public:
  /// `plain`: special tokens are not matched in texts.
  SentencePieceTokenizer(SentencePieceModel model, TokenizerConfig config, TokenizerFiles files, bool plain)
      : model_(std::move(model)), config_(std::move(config)), files_(std::move(files)) {
    for (int id = 0; id < model_.size(); ++id) pieces_.insert(model_.piece(id), id);
    name_roles();
    if (!plain) add_special_tokens();
    added_.prepare(nullptr, "");
    end_id_ = model_.size();
    if (!added_.tokens().empty())
      end_id_ = std::max<std::int64_t>(end_id_, added_.tokens().rbegin()->first + 1);
    choose_ends();
  }

  std::string decode(std::span<const std::int64_t> ids, bool skip_special_tokens) const override;
  bool cleans_up_spaces() const override { return config_.clean_up_spaces; }
  std::int64_t vocab_size() const override { return end_id_; }
  std::string token(std::int64_t id) const override {
    if (const AddedToken* added = added_.find(id)) return added->content;
    if (id < 0 || id >= model_.size()) {
      throw Error(fmt::format("token: expected an id of the vocabulary (0 to {}), got {}", end_id_ - 1, id));
    }
    return model_.piece(static_cast<int>(id));
  }
  std::optional<std::int64_t> token_to_id(std::string_view token) const override {
    if (const AddedToken* added = added_.find(token)) return added->id;
    const std::int32_t id = pieces_.find(token);
    return id < 0 ? std::nullopt : std::optional<std::int64_t>(id);
  }
  bool is_special(std::int64_t id) const override {
    const AddedToken* added = added_.find(id);
    if (added != nullptr) return added->special;
    return id >= 0 && id < model_.size() && model_.is_control(static_cast<int>(id));
  }
  std::optional<std::int64_t> bos_id() const override { return role(SpecialRole::bos); }
  std::optional<std::int64_t> eos_id() const override { return role(SpecialRole::eos); }
  std::optional<std::int64_t> unk_id() const override { return role(SpecialRole::unk); }
  std::optional<std::int64_t> pad_id() const override { return role(SpecialRole::pad); }
  std::optional<std::int64_t> model_max_length() const override { return config_.model_max_length; }
  void save(const std::filesystem::path& directory) const override { files_.save(directory); }

 protected:
  Encoding cut(std::string_view text) const override;
  Encoding assemble(Encoding first, std::optional<Encoding> second, bool add_special_tokens) const override {
    return process(ends_.get(), std::move(first), std::move(second), add_special_tokens);
  }

 private:
  bool pieces_has(std::string_view token) const { return pieces_.find(token) >= 0; }
  std::optional<std::int64_t> role(SpecialRole which) const {
    const auto& name = config_.role(which);
    return name ? token_to_id(*name) : std::nullopt;
  }
  void name_roles();
  void add_special_tokens();
  void choose_ends();

  SentencePieceModel model_;
  TokenizerConfig config_;
  TokenizerFiles files_;
  TokenTable pieces_;
  AddedTokens added_;
  std::unique_ptr<const PostProcessor> ends_;
  std::int64_t end_id_ = 0;
};

void SentencePieceTokenizer::name_roles() {
  if (config_.names_roles) return;
  const auto set = [this](SpecialRole which, const char* token) {
    if (pieces_has(token)) config_.roles[static_cast<std::size_t>(which)] = token;
  };
  set(SpecialRole::bos, "<s>");
  set(SpecialRole::eos, "</s>");
  set(SpecialRole::unk, "<unk>");
}

void SentencePieceTokenizer::add_special_tokens() {
  const auto add = [this](const std::string& content) {
    AddedToken token;
    token.content = content;
    token.special = true;
    token.normalized = false;
    added_.add(token, pieces_);
  };
  for (const AddedToken& token : config_.added_tokens) added_.add(token, pieces_);
  for (const std::string& token : config_.special_tokens()) {
    if (added_.find(token) == nullptr) add(token);
  }
}

void SentencePieceTokenizer::choose_ends() {
  const auto end = [this](bool wanted, SpecialRole which) -> std::optional<EndToken> {
    const auto id = role(which);
    if (!wanted || !id) return std::nullopt;
    return EndToken{*id, token(*id)};
  };
  ends_ = ends_processor(end(config_.add_bos.value_or(true), SpecialRole::bos),
                         end(config_.add_eos.value_or(false), SpecialRole::eos));
}

Encoding SentencePieceTokenizer::cut(std::string_view text) const {
  const CharacterOffsets characters(text);
  Encoding encoding;
  for (const AddedPart& part : added_.split(text, false)) {
    const std::string_view view = text.substr(part.begin, part.end - part.begin);
    if (part.id >= 0) {
      encoding.push(part.id, std::string(view), {characters[part.begin], characters[part.end]});
      continue;
    }
    model_.encode(view, [&](std::string_view piece, int id, std::size_t begin, std::size_t end) {
      encoding.push(id, std::string(piece), {characters[part.begin + begin], characters[part.begin + end]});
    });
  }
  return encoding;
}

std::string SentencePieceTokenizer::decode(std::span<const std::int64_t> ids,
                                           bool skip_special_tokens) const {
  std::string text;
  std::vector<std::string_view> pieces;
  const auto flush = [&] {
    if (!pieces.empty()) text += model_.decode(pieces);
    pieces.clear();
  };
  for (const std::int64_t id : ids) {
    if (id < 0) throw Error(fmt::format("decode: expected ids from 0, got {}", id));
    const AddedToken* added = added_.find(id);
    if (added == nullptr) {
      if (id < model_.size()) pieces.push_back(model_.piece(static_cast<int>(id)));
    } else if (!added->special || !skip_special_tokens) {
      flush();
      text += added->content;
    }
  }
  flush();
  return text;
}

}  // namespace

std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& directory, const char* name) {
  TokenizerFiles files;
  SentencePieceModel model(files.read(directory, name), (directory / name).string());
  for (const char* other : {"tokenizer_config.json", "special_tokens_map.json"})
    files.read_config(directory, other);
  const bool plain = files.contents.size() == 1;
  return std::make_unique<SentencePieceTokenizer>(std::move(model), TokenizerConfig::load(directory),
                                                  std::move(files), plain);
}

}  // namespace heed
