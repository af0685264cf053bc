// A SentencePiece model as the normalizer, model and decoder of a pipeline.
#include "text/algorithms/sentencepiece_model.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/utf8.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "heed/text/tokenizer.h"
#include "heed/text/unicode.h"
#include "text/algorithms/unigram_path.h"
#include "text/loading/sentencepiece_file.h"
#include "text/pipeline/word_ends.h"
#include "text/unicode/charsmap.h"

namespace heed {
namespace {

using Kind = SentencePieceFile::Kind;

constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";
constexpr float kUnknownPiecePenalty = 10.0f;
/// A user-defined piece of n bytes scores 0.1 n - 0.1, more than any other piece.
constexpr float kUserDefined = 0.1f;

/// Returns the length in bytes of the first character of a text, or 0 if it does not begin with a valid one.
std::size_t first_character(std::string_view text) {
  if (static_cast<unsigned char>(text[0]) < 0x80) return 1;
  const std::size_t length = utf8_length(text[0]);
  return length <= text.size() && !first_invalid_utf8(text.substr(0, length)) ? length : 0;
}

}  // namespace

/// Normalizes a text as the model requires: replaces characters by its map, and spaces by U+2581.
class SentencePieceNormalizer {
 public:
  /// The character map of the file must have been checked.
  explicit SentencePieceNormalizer(const SentencePieceFile& file);
  /// Sets `origins` to the source byte in the text of every byte of the result, and of its end.
  std::string operator()(std::string_view text, std::vector<std::uint32_t>& origins) const;
  /// Returns true if no replacement and no symbol reaches across a word end (text/word_ends.h).
  bool preserves_word_ends() const { return keeps_word_ends_; }

 private:
  /// Returns the replacement of the beginning of a text.
  Charsmap::Match step(std::string_view text) const;

  std::optional<Charsmap> map_;
  Trie symbols_;  // user-defined symbols, which are not changed
  bool dummy_prefix_, extra_whitespaces_, suffix_;
  std::string space_;
  bool keeps_word_ends_ = true;
};

SentencePieceNormalizer::SentencePieceNormalizer(const SentencePieceFile& file)
    : dummy_prefix_(file.add_dummy_prefix),
      extra_whitespaces_(!file.remove_extra_whitespaces),
      suffix_(file.whitespace_as_suffix),
      space_(file.escape_whitespaces ? kEscapedSpace : " ") {
  for (const auto& piece : file.pieces) {
    if (piece.kind != Kind::user_defined) continue;
    symbols_.insert(piece.text, 0);
    if (spans_word_end(piece.text)) keeps_word_ends_ = false;
  }
  if (file.charsmap.empty()) return;
  map_ = Charsmap::parse(file.charsmap);
  HEED_ASSERT(map_, "the character map has been checked");
  if (map_->continues_by_space()) keeps_word_ends_ = false;
}

Charsmap::Match SentencePieceNormalizer::step(std::string_view text) const {
  std::size_t symbol = 0;
  for (std::uint32_t node = symbols_.root(), end = 0; end < text.size();) {
    node = symbols_.next(node, text[end++]);
    if (node == Trie::kNone) break;
    if (symbols_.value(node) != Trie::kNone) symbol = end;
  }
  if (symbol > 0) return {text.substr(0, symbol), symbol};
  if (map_) {
    if (const Charsmap::Match longest = map_->longest(text); longest.bytes > 0) return longest;
  }
  const std::size_t character = first_character(text);
  if (character == 0) return {kReplacementCharacter, 1};
  return {text.substr(0, character), character};
}

std::string SentencePieceNormalizer::operator()(std::string_view text,
                                                std::vector<std::uint32_t>& origins) const {
  std::string result;
  result.reserve(text.size() + text.size() / 2 + 8);
  origins.clear();
  origins.reserve(text.size() + text.size() / 2 + 8);
  std::size_t at = 0;
  const auto put = [&](std::string_view bytes) {
    result += bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i) origins.push_back(static_cast<std::uint32_t>(at));
  };
  while (!extra_whitespaces_ && at < text.size()) {
    const Charsmap::Match next = step(text.substr(at));
    if (next.replacement != " ") break;
    at += next.bytes;
  }
  if (at == text.size()) return result;
  if (dummy_prefix_ && !suffix_) put(space_);
  for (bool behind_space = !extra_whitespaces_; at < text.size();) {
    const Charsmap::Match next = step(text.substr(at));
    std::string_view becomes = next.replacement;
    if (behind_space) becomes.remove_prefix(std::min(becomes.find_first_not_of(' '), becomes.size()));
    for (const char& byte : becomes) put(byte == ' ' ? std::string_view(space_) : std::string_view(&byte, 1));
    if (!becomes.empty()) behind_space = !extra_whitespaces_ && becomes.back() == ' ';
    at += next.bytes;
  }
  while (!extra_whitespaces_ && result.ends_with(space_)) {
    result.resize(result.size() - space_.size());
    at = origins[result.size()];
    origins.resize(result.size());
  }
  if (dummy_prefix_ && suffix_) put(space_);
  origins.push_back(static_cast<std::uint32_t>(at));
  return result;
}

/// Tokenizes with unigram models as release 0.2.2 and later of the library do, whichever is installed.
/// Earlier releases rounded sums of scores differently, and so chose differently among segmentations with
/// equal scores.
class SentencePieceUnigram {
 public:
  explicit SentencePieceUnigram(const SentencePieceFile& file);

  /// See SentencePieceModel.
  void encode(std::string_view text, SentencePieceModel::PieceVisitor visit) const;
  /// The best path to a word end does not depend on the text after it if no piece reaches across it.
  std::size_t safe_end(std::string_view text, std::size_t from) const;

 private:
  float score(std::uint32_t id, std::size_t bytes) const;

  SentencePieceNormalizer normalize_;
  Trie trie_;
  std::vector<float> scores_;
  std::vector<bool> user_defined_;
  std::int32_t unknown_id_ = -1;
  float unknown_score_ = 0;
  std::vector<std::int32_t> bytes_;  // the byte pieces; empty without byte fallback
  bool cuts_words_ = false;          // no piece reaches across a word end
};

SentencePieceUnigram::SentencePieceUnigram(const SentencePieceFile& file) : normalize_(file) {
  float lowest = std::numeric_limits<float>::max();
  bool space = false, across = file.whitespace_as_suffix;
  if (file.byte_fallback) bytes_.assign(256, -1);
  for (std::size_t id = 0; id < file.pieces.size(); ++id) {
    const auto& piece = file.pieces[id];
    const auto number = static_cast<std::int32_t>(id);
    scores_.push_back(piece.score);
    user_defined_.push_back(piece.kind == Kind::user_defined);
    if (piece.kind == Kind::normal) lowest = std::min(lowest, piece.score);
    if (piece.kind == Kind::unknown) unknown_id_ = number;
    if (piece.kind == Kind::normal || piece.kind == Kind::user_defined)
      trie_.insert(piece.text, static_cast<std::uint32_t>(id));
    if (piece.kind == Kind::normal || piece.kind == Kind::user_defined) {
      across = across || spans_word_end(piece.text);
      space = space || piece.text == kEscapedSpace;
    }
    if (piece.kind != Kind::byte || bytes_.empty()) continue;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if (piece.text == fmt::format("<0x{:02X}>", byte)) bytes_[byte] = number;
    }
  }
  unknown_score_ = lowest - kUnknownPiecePenalty;
  // Without a piece for the space, unknown characters on both sides of it would be merged with it into one
  // piece.
  cuts_words_ = space && !across && file.escape_whitespaces && normalize_.preserves_word_ends();
}

float SentencePieceUnigram::score(std::uint32_t id, std::size_t bytes) const {
  return user_defined_[id] ? static_cast<float>(bytes) * kUserDefined - kUserDefined : scores_[id];
}

std::size_t SentencePieceUnigram::safe_end(std::string_view text, std::size_t from) const {
  constexpr int kTries = 64;
  if (!cuts_words_) return text.size();
  std::vector<std::uint32_t> origins;
  std::size_t end = find_word_end(text, from);
  for (int tries = 0; tries < kTries && end < text.size(); ++tries, end = find_word_end(text, end + 1)) {
    if (space_between(normalize_(letters_around(text, end), origins)) == kMetaspace) return end;
  }
  return text.size();
}

void SentencePieceUnigram::encode(std::string_view text, SentencePieceModel::PieceVisitor visit) const {
  std::vector<std::uint32_t> origins;
  const std::string normalized = normalize_(text, origins);
  UnigramPath<float> path;
  path.find(
      normalized, trie_, [this](std::uint32_t id, std::size_t bytes) { return score(id, bytes); },
      unknown_id_, unknown_score_);
  struct Piece {
    std::size_t begin, end;
    std::int32_t id;
  };
  std::vector<Piece> pieces;  // from the last to the first
  for (std::size_t end = normalized.size(); end > 0; end = path[end].begin) {
    const Piece piece{path[end].begin, end, path[end].id};
    // Neighboring unknown characters become one piece, or one piece per byte.
    if (piece.id == unknown_id_ && bytes_.empty() && !pieces.empty() && pieces.back().id == unknown_id_) {
      pieces.back().begin = piece.begin;
    } else {
      pieces.push_back(piece);
    }
  }
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    const std::size_t begin = origins[piece->begin], end = origins[piece->end];
    const std::string_view shown =
        std::string_view(normalized).substr(piece->begin, piece->end - piece->begin);
    if (piece->id != unknown_id_ || bytes_.empty()) {
      visit(shown, piece->id, begin, end);
      continue;
    }
    for (std::size_t i = 0; i < shown.size(); ++i) {  // the last byte covers the text
      const auto byte = static_cast<unsigned char>(shown[i]);
      visit(fmt::format("<0x{:02X}>", byte), bytes_[byte] < 0 ? unknown_id_ : bytes_[byte], begin,
            i + 1 < shown.size() ? begin : end);
    }
  }
}

void silence_sentencepiece() {
  // The library's public headers offer the log level only as a training option, so a training that fails for
  // lack of input sets it.
  static const bool done = [] {
    sentencepiece::SentencePieceTrainer::Train(
        std::unordered_map<std::string, std::string>{{"minloglevel", "3"}})
        .IgnoreError();
    return true;
  }();
  static_cast<void>(done);
}

SentencePieceModel::SentencePieceModel(std::string_view serialized, const std::string& where)
    : processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  silence_sentencepiece();
  const bool has_fields = check_character_maps(serialized, where);
  bool loaded = false;
  try {
    loaded =
        has_fields && processor_->LoadFromSerializedProto(serialized).ok() && processor_->GetPieceSize() > 0;
  } catch (const std::exception&) {  // thrown if its trie cannot be built: an empty piece
  }
  if (!loaded) refuse_sentencepiece_file(serialized, where);
  const SentencePieceFile file = read_sentencepiece_file(serialized, where);
  if (file.unigram) unigram_ = std::make_unique<const SentencePieceUnigram>(file);
}

SentencePieceModel SentencePieceModel::load(const std::filesystem::path& path) {
  return SentencePieceModel(read_regular_file(path, file_limits::kTokenizer), path.string());
}

SentencePieceModel::~SentencePieceModel() = default;
SentencePieceModel::SentencePieceModel(SentencePieceModel&&) noexcept = default;
SentencePieceModel& SentencePieceModel::operator=(SentencePieceModel&&) noexcept = default;

void SentencePieceModel::encode(std::string_view text, PieceVisitor visit) const {
  if (unigram_) return unigram_->encode(text, visit);
  sentencepiece::ImmutableSentencePieceText pieces;
  const auto status = processor_->Encode(text, pieces.mutable_proto());
  if (!status.ok()) throw Error(fmt::format("SentencePiece: cannot tokenize the text: {}", status.message()));
  const int count = static_cast<int>(pieces.pieces_size());
  for (int i = 0; i < count; ++i) {
    const auto piece = pieces.pieces(i);
    visit(piece.piece(), static_cast<int>(piece.id()), piece.begin(), piece.end());
  }
}

std::string SentencePieceModel::decode(const std::vector<std::string_view>& pieces) const {
  std::string text;
  const auto status = processor_->Decode(pieces, &text);
  if (!status.ok()) throw Error(fmt::format("SentencePiece: cannot join the pieces: {}", status.message()));
  return text;
}

std::size_t SentencePieceModel::safe_end(std::string_view text, std::size_t from) const {
  return unigram_ ? unigram_->safe_end(text, from) : text.size();
}

int SentencePieceModel::size() const { return processor_->GetPieceSize(); }
const std::string& SentencePieceModel::piece(int id) const { return processor_->IdToPiece(id); }
bool SentencePieceModel::is_unknown(int id) const { return processor_->IsUnknown(id); }
bool SentencePieceModel::is_control(int id) const { return processor_->IsControl(id); }

namespace {

/// Returns the end of a language code `>>xx<<` at the start of a text, or 0 if there is none.
std::size_t language_code_end(std::string_view text) {
  if (!text.starts_with(">>")) return 0;
  const std::size_t close = text.find("<<");
  return close == text.npos ? 0 : close + 2;
}

class SentencePieceTokens final : public TokenModel {
 public:
  /// Without `unknown`, the ids are those of the model.
  SentencePieceTokens(std::shared_ptr<const SentencePieceModel> model, TokenTable table,
                      std::optional<std::int32_t> unknown, bool language_codes)
      : TokenModel(std::move(table)),
        model_(std::move(model)),
        unknown_(unknown),
        language_codes_(language_codes) {
    for (int piece = 0; unknown_ && piece < model_->size(); ++piece)
      ids_.push_back(id_of(model_->piece(piece)));
  }

  void tokenize(std::string_view piece, ModelTokens& tokens) const override {
    const auto push = [&tokens](std::int32_t id, std::string_view text, std::size_t begin, std::size_t end) {
      tokens.list.push_back({id, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
      tokens.texts.emplace_back(text);
    };
    tokens.list.reserve(piece.size() / 3 + 4);
    tokens.texts.reserve(piece.size() / 3 + 4);
    const std::size_t code = language_codes_ ? language_code_end(piece) : 0;
    if (code > 0) push(id_of(piece.substr(0, code)), piece.substr(0, code), 0, code);
    model_->encode(piece.substr(code),
                   [&](std::string_view text, int id, std::size_t begin, std::size_t end) {
                     // An unknown piece is the text itself, which may be in the vocabulary nevertheless.
                     const std::int32_t given = !unknown_                ? id
                                                : model_->is_unknown(id) ? id_of(text)
                                                                         : ids_[static_cast<std::size_t>(id)];
                     push(given, text, code + begin, code + end);
                   });
  }

  bool is_control(std::int64_t id) const override {
    return !unknown_ && id >= 0 && id < model_->size() && model_->is_control(static_cast<int>(id));
  }

  std::size_t safe_end(std::string_view text, std::size_t from) const override {
    const std::size_t end = model_->safe_end(text, from);
    if (!language_codes_) return end;
    // An open language code may end anywhere in the rest.
    const std::string_view beginning = text.substr(0, end);
    const std::size_t open = beginning.rfind(">>");
    return open != beginning.npos && beginning.find("<<", open) == beginning.npos ? text.size() : end;
  }

 private:
  std::int32_t id_of(std::string_view token) const {
    const std::int32_t id = vocabulary().find(token);
    return id < 0 ? *unknown_ : id;
  }

  std::shared_ptr<const SentencePieceModel> model_;
  std::optional<std::int32_t> unknown_;
  bool language_codes_;
  std::vector<std::int32_t> ids_;  // per piece of the model
};

class SentencePieceDecoder final : public TokenDecoder {
 public:
  SentencePieceDecoder(std::shared_ptr<const SentencePieceModel> model, SentencePieceDecoding settings)
      : model_(std::move(model)), settings_(std::move(settings)) {}

  void apply(std::vector<std::string>& tokens) const override {
    std::string text;
    std::vector<std::string_view> pieces;
    const auto join_pieces = [&] {
      if (!pieces.empty()) text += model_->decode(pieces);
      pieces.clear();
    };
    for (const std::string& token : tokens) {
      if (!settings_.whole.contains(token)) {
        pieces.push_back(token);
        continue;
      }
      join_pieces();
      text += token;
      text += settings_.after_whole;
    }
    join_pieces();
    if (settings_.replace_blanks) replace_all(text, kEscapedSpace, " ");
    if (settings_.strip) text = strip(text);
    if (settings_.clean_up_spaces) text = clean_up_spaces(std::move(text));
    tokens = {std::move(text)};
  }

 private:
  std::shared_ptr<const SentencePieceModel> model_;
  SentencePieceDecoding settings_;
};

}  // namespace

std::unique_ptr<const TokenModel> sentencepiece_tokens(std::shared_ptr<const SentencePieceModel> model) {
  TokenTable pieces;
  for (int id = 0; id < model->size(); ++id) pieces.insert(model->piece(id), id);
  return std::make_unique<SentencePieceTokens>(std::move(model), std::move(pieces), std::nullopt, false);
}

std::unique_ptr<const TokenModel> sentencepiece_tokens(std::shared_ptr<const SentencePieceModel> model,
                                                       TokenTable vocabulary, std::int32_t unknown,
                                                       bool language_codes) {
  return std::make_unique<SentencePieceTokens>(std::move(model), std::move(vocabulary), unknown,
                                               language_codes);
}

std::unique_ptr<const TokenDecoder> sentencepiece_decoder(std::shared_ptr<const SentencePieceModel> model,
                                                          SentencePieceDecoding settings) {
  return std::make_unique<SentencePieceDecoder>(std::move(model), std::move(settings));
}

}  // namespace heed
