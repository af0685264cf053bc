// The normalization of a SentencePiece model: a double-array trie of byte strings, applied to each grapheme
// cluster as the tokenizers library does.
#include "text/unicode/charsmap.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/utf8.h"
#include "heed/text/unicode.h"

namespace heed {
namespace {

constexpr std::size_t kLongestCluster = 5;  // bytes; longer clusters are mapped character by character
constexpr int kMaxPrefixes = 32;            // capacity of the result array of SentencePiece's library

int break_class(char32_t c) {
  return u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_GRAPHEME_CLUSTER_BREAK);
}

bool is_control(int kind) { return kind == U_GCB_CONTROL || kind == U_GCB_CR || kind == U_GCB_LF; }

/// Returns true if two neighboring characters belong to one grapheme cluster (UAX 29). `pictograph`: the
/// cluster so far is a pictograph with extensions. `flags`: the number of regional indicators at its end.
bool stay_together(int a, int b, char32_t second, bool pictograph, int flags) {
  if (a == U_GCB_CR && b == U_GCB_LF) return true;
  if (is_control(a) || is_control(b)) return false;
  if (b == U_GCB_EXTEND || b == U_GCB_ZWJ || b == U_GCB_SPACING_MARK || a == U_GCB_PREPEND) return true;
  if (a == U_GCB_L) return b == U_GCB_L || b == U_GCB_V || b == U_GCB_LV || b == U_GCB_LVT;
  if (a == U_GCB_LV || a == U_GCB_V) return b == U_GCB_V || b == U_GCB_T;
  if (a == U_GCB_LVT || a == U_GCB_T) return b == U_GCB_T;
  if (a == U_GCB_REGIONAL_INDICATOR) return b == U_GCB_REGIONAL_INDICATOR && flags % 2 == 1;
  return a == U_GCB_ZWJ && pictograph &&
         u_hasBinaryProperty(static_cast<UChar32>(second), UCHAR_EXTENDED_PICTOGRAPHIC);
}

/// Returns where the grapheme cluster that begins at `at` ends.
std::size_t cluster_end(std::string_view text, std::size_t at) {
  char32_t c = next_character(text, at);
  if (at == text.size() || (c < 0x80 && c != '\r' && static_cast<unsigned char>(text[at]) < 0x80)) return at;
  int kind = break_class(c), flags = 0;
  bool pictograph = false;
  for (; at < text.size();) {
    if (kind == U_GCB_REGIONAL_INDICATOR) ++flags;
    if (kind != U_GCB_EXTEND && kind != U_GCB_ZWJ) {
      pictograph = u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_EXTENDED_PICTOGRAPHIC);
    }
    std::size_t end = at;
    c = next_character(text, end);
    const int next_kind = break_class(c);
    if (!stay_together(kind, next_kind, c, pictograph, flags)) break;
    kind = next_kind;
    at = end;
  }
  return at;
}

std::size_t count_of(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += is_utf8_start(c) ? 1 : 0;
  return count;
}

/// Records `replacement` in place of `count` characters. If the replacement has more characters, the last
/// ones count as inserted; if it has fewer, the change written last also replaces the remaining characters.
void replace(std::vector<CharacterChange>& changes, std::string_view replacement, std::size_t count) {
  const std::size_t first = changes.size();
  for (std::size_t at = 0; at < replacement.size();) changes.push_back({next_character(replacement, at), 0});
  const std::size_t written = changes.size() - first;
  for (std::size_t i = count; i < written; ++i) changes[first + i].change = 1;
  if (written < count && !changes.empty())
    changes.back().change -= static_cast<std::int32_t>(count - written);
}

/// Visits every unit that a text could lead to.
class Walk {
 public:
  Walk(const DoubleArray& trie, std::size_t replacement_bytes)
      : trie_(trie), replacement_bytes_(replacement_bytes), nodes_(trie.size()) {}

  /// A node is identified here by the index that its children are relative to.
  bool is_safe() {
    if (!enter(trie_.children(DoubleArray::root()))) return false;
    while (!open_.empty()) {
      const std::uint32_t place = open_.back();
      Node& node = nodes_[place];
      std::uint32_t byte = node.next_byte;
      while (byte < 256 && !trie_.leads_to(place ^ byte, byte)) ++byte;
      if (byte == 256) {
        node.state = State::done;
        open_.pop_back();
        continue;
      }
      node.next_byte = static_cast<std::uint16_t>(byte);
      const std::uint32_t unit = place ^ byte, child = trie_.children(unit);
      const bool ends = trie_.has_value(unit);
      if (!inside(child) || (ends && trie_.value(unit) >= replacement_bytes_)) return false;
      if (nodes_[child].state == State::open) return false;  // a cycle
      if (nodes_[child].state == State::unseen) {
        enter(child);
        continue;  // resume at this byte once the child is done
      }
      node.prefixes = std::max(node.prefixes, nodes_[child].prefixes + (ends ? 1 : 0));
      if (node.prefixes > kMaxPrefixes) return false;
      ++node.next_byte;
    }
    return true;
  }

 private:
  enum class State : std::uint8_t { unseen, open, done };
  struct Node {
    State state = State::unseen;
    std::uint16_t next_byte = 0;
    int prefixes = 0;  // on the longest path below the node
  };

  bool inside(std::uint32_t place) const { return (place | 0xFF) < trie_.size(); }
  bool enter(std::uint32_t place) {
    if (!inside(place)) return false;
    nodes_[place].state = State::open;
    open_.push_back(place);
    return true;
  }

  const DoubleArray& trie_;
  std::size_t replacement_bytes_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> open_;
};

}  // namespace

Charsmap::Charsmap(DoubleArray trie, std::string replacements)
    : trie_(std::move(trie)), replacements_(std::move(replacements)) {
  for (std::size_t byte = 1; byte < ascii_changes_.size(); ++byte) {
    const char c = static_cast<char>(byte);
    ascii_changes_[byte] = find(std::string_view(&c, 1)).has_value();
  }
}

std::optional<Charsmap> Charsmap::parse(std::string_view bytes) {
  std::uint32_t size = 0;
  if (bytes.size() < sizeof size) return std::nullopt;
  std::memcpy(&size, bytes.data(), sizeof size);
  bytes.remove_prefix(sizeof size);
  if (size > bytes.size() || size % sizeof(std::uint32_t) != 0 || size == 0) return std::nullopt;
  std::vector<std::uint32_t> units(size / sizeof(std::uint32_t));
  std::memcpy(units.data(), bytes.data(), size);
  return Charsmap(DoubleArray(std::move(units)), std::string(bytes.substr(size)));
}

Charsmap::Match Charsmap::longest(std::string_view text) const {
  Match longest;
  std::uint32_t node = DoubleArray::root();
  for (std::size_t end = 0; end < text.size();) {
    node = trie_.next(node, text[end++]);
    if (node == DoubleArray::kNone) break;
    if (trie_.has_value(node)) longest = {replacements_.c_str() + trie_.value(node), end};
  }
  return longest;
}

bool Charsmap::is_safe() const {
  for (std::size_t begin = 0; begin < replacements_.size();) {
    const std::size_t end = std::min(replacements_.find('\0', begin), replacements_.size());
    if (end - begin > kLongestReplacement) return false;
    begin = end + 1;
  }
  return Walk(trie_, replacements_.size()).is_safe();
}

bool Charsmap::continues_by_space() const {
  for (std::uint32_t at = 0; at < trie_.size(); ++at) {
    if (trie_.leads_to(at, ' ') && (at ^ ' ') != trie_.children(DoubleArray::root())) return true;
  }
  return false;
}

std::optional<std::string_view> Charsmap::find(std::string_view chunk) const {
  std::uint32_t node = DoubleArray::root();
  for (const char byte : chunk) {
    node = trie_.next(node, byte);
    if (node == DoubleArray::kNone) return std::nullopt;
    if (!trie_.has_value(node)) continue;
    const std::uint32_t begin = trie_.value(node);
    if (begin >= replacements_.size()) return std::nullopt;
    const std::string_view found = replacements_.c_str() + begin;
    // A damaged map may point anywhere.
    if (first_invalid_utf8(found)) return std::nullopt;
    return found;
  }
  return std::nullopt;
}

bool Charsmap::needs_nothing(std::string_view text) const {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x80 || ascii_changes_[byte]) return false;
  }
  return true;
}

void Charsmap::apply(NormalizedText& text) const {
  const std::string_view bytes = text.text();
  if (needs_nothing(bytes)) return;
  std::vector<CharacterChange> changes;
  changes.reserve(bytes.size());
  bool changed = false;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = cluster_end(bytes, at);
    text.check_growth(changes.size());
    if (end == at + 1 && !ascii_changes_[static_cast<unsigned char>(bytes[at])]) {
      changes.push_back({static_cast<char32_t>(bytes[at]), 0});
      at = end;
      continue;
    }
    const std::string_view cluster = bytes.substr(at, end - at);
    if (cluster.size() <= kLongestCluster) {
      if (const auto replacement = find(cluster)) {
        replace(changes, *replacement, count_of(cluster));
        changed = true;
        at = end;
        continue;
      }
    }
    while (at < end) {
      const std::size_t length = utf8_length(bytes[at]);
      if (const auto replacement = find(bytes.substr(at, length))) {
        replace(changes, *replacement, 1);
        changed = true;
        at += length;
      } else {
        changes.push_back({next_character(bytes, at), 0});
      }
    }
  }
  if (changed) text = change_characters(text, changes);
}

}  // namespace heed
