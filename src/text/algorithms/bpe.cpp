// Byte pair encoding (Sennrich, Haddow and Birch 2016): merges the pair of lowest rank until none is left,
// by scanning short pieces and with a queue for long ones.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <queue>
#include <utility>

#include "core/utf8.h"
#include "heed/error.h"
#include "text/algorithms/token_model.h"

namespace heed {
namespace {

constexpr std::size_t kShort = 32;      // bytes; up to here, each merge scans all pairs
constexpr std::size_t kDirect = 0x250;  // code points below this have their ids in a table

struct BpeSettings {
  std::string unknown, prefix, suffix;
  bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;
};

class Bpe final : public TokenModel {
 public:
  Bpe(TokenTable vocabulary, BpeSettings settings, const JsonField& field);
  void tokenize(std::string_view piece, ModelTokens& tokens) const override;
  bool preserves_spaces() const override { return true; }

 private:
  struct Symbol {
    std::int32_t id;
    std::uint32_t length;  // bytes of the piece
    std::int32_t previous;
    std::int32_t next;
  };
  using Symbols = std::vector<Symbol>;

  void read_merges(const JsonField& field);
  void add_merge(std::string_view left, std::string_view right, const std::function<JsonField()>& field);
  /// Splits a piece into its initial symbols: its characters, or the replacements of unknown ones.
  void split(std::string_view piece, Symbols& symbols) const;
  std::int32_t id_of(std::string_view piece, std::size_t begin, std::size_t end) const;
  bool add_bytes(std::string_view character, Symbols& symbols) const;
  std::uint32_t merge_of(std::int32_t left, std::int32_t right) const {
    return merges_.find(static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right));
  }
  void merge_short(Symbols& symbols) const;
  void merge_long(Symbols& symbols) const;

  BpeSettings settings_;
  std::int32_t unknown_id_ = -1;
  PairMap merges_;                              // pair of ids to its rank
  std::vector<std::int32_t> merged_;            // per rank: the id of the merged pair
  std::array<std::int32_t, kDirect> direct_{};  // ids of single characters
  std::vector<std::int32_t> bytes_;
};

Bpe::Bpe(TokenTable table, BpeSettings settings, const JsonField& field)
    : TokenModel(std::move(table)), settings_(std::move(settings)) {
  for (std::size_t c = 0; c < kDirect; ++c) {
    std::string character;
    append_utf8(character, static_cast<char32_t>(c));
    direct_[c] = vocabulary().find(character);
  }
  if (settings_.byte_fallback) bytes_ = byte_tokens(vocabulary());
  if (const auto unknown = field.find("unk_token")) unknown_id_ = vocabulary().find(unknown->string());
  read_merges(field.at("merges"));
}

void Bpe::add_merge(std::string_view left, std::string_view right, const std::function<JsonField()>& field) {
  const std::int32_t a = vocabulary().find(left), b = vocabulary().find(right);
  if (a < 0 || b < 0) field().fail("two tokens of the vocabulary");
  std::string whole(left);
  if (right.size() < settings_.prefix.size()) field().fail("a second token that begins with the prefix");
  whole += right.substr(settings_.prefix.size());
  const std::int32_t id = vocabulary().find(whole);
  if (id < 0) field().fail(fmt::format("a pair that makes a token of the vocabulary"));
  merges_.set(static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint32_t>(b),
              static_cast<std::uint32_t>(merged_.size()));
  merged_.push_back(id);
}

void Bpe::read_merges(const JsonField& field) {
  if (field.value().is_object() && field.value().empty())
    return;  // a vocabulary without merges, as some tools write it
  const std::size_t count = field.array_size();
  merges_ = PairMap(count);
  merged_.reserve(count);
  std::size_t index = 0;
  for (const nlohmann::ordered_json& merge : field.value()) {
    const auto here = [&] { return field.at(index); };
    if (merge.is_string()) {
      const std::string_view text = merge.get_ref<const std::string&>();
      const std::size_t space = text.find(' ');
      if (space == text.npos || text.find(' ', space + 1) != text.npos)
        here().fail("two tokens with a space between");
      add_merge(text.substr(0, space), text.substr(space + 1), here);
    } else {
      if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) {
        here().fail("an array of two tokens");
      }
      add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>(), here);
    }
    ++index;
  }
}

std::int32_t Bpe::id_of(std::string_view piece, std::size_t begin, std::size_t end) const {
  const bool prefixed = begin > 0 && !settings_.prefix.empty();
  const bool suffixed = end == piece.size() && !settings_.suffix.empty();
  const std::string_view character = piece.substr(begin, end - begin);
  if (prefixed || suffixed) {
    return vocabulary().find((prefixed ? settings_.prefix : std::string()) + std::string(character) +
                             (suffixed ? settings_.suffix : std::string()));
  }
  std::size_t at = 0;
  const char32_t c = next_character(character, at);
  return c < kDirect ? direct_[c] : vocabulary().find(character);
}

bool Bpe::add_bytes(std::string_view character, Symbols& symbols) const {
  for (const char byte : character) {
    if (bytes_[static_cast<unsigned char>(byte)] < 0) return false;
  }
  for (const char byte : character) symbols.push_back({bytes_[static_cast<unsigned char>(byte)], 1, 0, 0});
  return true;
}

void Bpe::split(std::string_view piece, Symbols& symbols) const {
  std::uint32_t unknown = 0;  // bytes of unknown characters not yet written
  const auto flush = [&] {
    if (unknown > 0) symbols.push_back({unknown_id_, unknown, 0, 0});
    unknown = 0;
  };
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t end = at + utf8_length(piece[at]);
    const auto length = static_cast<std::uint32_t>(end - at);
    const std::int32_t id = id_of(piece, at, end);
    if (id >= 0) {
      flush();
      symbols.push_back({id, length, 0, 0});
    } else if (settings_.byte_fallback && add_bytes(piece.substr(at, length), symbols)) {
      // Unknown characters before this one are added after its bytes, as in the tokenizers library.
    } else if (!settings_.unknown.empty()) {
      if (unknown_id_ < 0) {
        throw Error(
            fmt::format("tokenizer: the text has characters outside the vocabulary, and the unknown token {} "
                        "is not in it",
                        settings_.unknown));
      }
      if (!settings_.fuse_unknown) flush();
      unknown += length;
    }
    at = end;
  }
  flush();
}

/// Scans all pairs for each merge, which is fastest for words.
void Bpe::merge_short(Symbols& symbols) const {
  std::array<std::uint32_t, kShort> ranks;
  std::size_t count = symbols.size();
  for (std::size_t i = 0; i + 1 < count; ++i) ranks[i] = merge_of(symbols[i].id, symbols[i + 1].id);
  while (count > 1) {
    const auto best = std::min_element(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(count) - 1);
    if (*best == PairMap::kNone) break;
    const auto i = static_cast<std::size_t>(best - ranks.begin());
    symbols[i] = {merged_[*best], symbols[i].length + symbols[i + 1].length, 0, 0};
    for (std::size_t k = i + 1; k + 1 < count; ++k) {
      symbols[k] = symbols[k + 1];
      ranks[k - 1] = ranks[k];
    }
    --count;
    if (i + 1 < count) ranks[i] = merge_of(symbols[i].id, symbols[i + 1].id);
    if (i > 0) ranks[i - 1] = merge_of(symbols[i - 1].id, symbols[i].id);
  }
  symbols.resize(count);
}

/// Keeps the pairs that can be merged in a queue, ordered by rank and then by position.
void Bpe::merge_long(Symbols& symbols) const {
  std::vector<std::uint64_t> found;
  const auto count = static_cast<std::int32_t>(symbols.size());
  const auto entry = [&](std::int32_t place) -> std::optional<std::uint64_t> {
    const Symbol& left = symbols[static_cast<std::size_t>(place)];
    const std::uint32_t rank = merge_of(left.id, symbols[static_cast<std::size_t>(left.next)].id);
    if (rank == PairMap::kNone) return std::nullopt;
    return std::uint64_t{rank} << 32 | static_cast<std::uint32_t>(place);
  };
  for (std::int32_t i = 0; i < count; ++i) {
    symbols[static_cast<std::size_t>(i)].previous = i - 1;
    symbols[static_cast<std::size_t>(i)].next = i + 1 < count ? i + 1 : -1;
  }
  for (std::int32_t i = 0; i + 1 < count; ++i) {
    if (const auto pair = entry(i)) found.push_back(*pair);
  }
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> queue(std::greater<>(),
                                                                                       std::move(found));
  while (!queue.empty()) {
    const std::uint64_t top = queue.top();
    queue.pop();
    const auto place = static_cast<std::int32_t>(top & 0xFFFFFFFF);
    Symbol& left = symbols[static_cast<std::size_t>(place)];
    // The symbol may have been merged since the entry was queued.
    if (left.length == 0 || left.next < 0 || entry(place) != top) continue;
    Symbol& right = symbols[static_cast<std::size_t>(left.next)];
    left = {merged_[static_cast<std::size_t>(top >> 32)], left.length + right.length, left.previous,
            right.next};
    right.length = 0;
    if (left.next >= 0) {
      symbols[static_cast<std::size_t>(left.next)].previous = place;
      if (const auto pair = entry(place)) queue.push(*pair);
    }
    if (left.previous >= 0) {
      if (const auto pair = entry(left.previous)) queue.push(*pair);
    }
  }
  symbols.erase(std::remove_if(symbols.begin(), symbols.end(), [](const Symbol& s) { return s.length == 0; }),
                symbols.end());
}

void Bpe::tokenize(std::string_view piece, ModelTokens& tokens) const {
  if (settings_.ignore_merges) {
    if (const std::int32_t id = vocabulary().find(piece); id >= 0) {
      tokens.list.push_back({id, 0, static_cast<std::uint32_t>(piece.size())});
      return;
    }
  }
  Symbols symbols;
  symbols.reserve(piece.size());
  split(piece, symbols);
  if (symbols.size() > kShort) {
    merge_long(symbols);
  } else {
    merge_short(symbols);
  }
  std::uint32_t at = 0;
  for (const Symbol& symbol : symbols) {
    tokens.list.push_back({symbol.id, at, at + symbol.length});
    at += symbol.length;
  }
}

}  // namespace

std::vector<std::int32_t> byte_tokens(const TokenTable& vocabulary) {
  std::vector<std::int32_t> ids;
  for (int byte = 0; byte < 256; ++byte) ids.push_back(vocabulary.find(fmt::format("<0x{:02X}>", byte)));
  return ids;
}

std::unique_ptr<const TokenModel> parse_bpe(const JsonField& field) {
  if (const auto dropout = field.find("dropout"); dropout && dropout->number() != 0) {
    dropout->fail("null or 0 (texts are split the same way every time)");
  }
  BpeSettings settings;
  settings.unknown = field.string("unk_token", "");
  settings.prefix = field.string("continuing_subword_prefix", "");
  settings.suffix = field.string("end_of_word_suffix", "");
  settings.fuse_unknown = field.boolean("fuse_unk", false);
  settings.byte_fallback = field.boolean("byte_fallback", false);
  settings.ignore_merges = field.boolean("ignore_merges", false);
  return std::make_unique<Bpe>(parse_vocabulary(field.at("vocab")), std::move(settings), field);
}

}  // namespace heed
