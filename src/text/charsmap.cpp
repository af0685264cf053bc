#include "text/charsmap.h"

#include <unicode/uchar.h>

#include <cstring>

#include "core/utf8.h"
#include "heed/text/unicode.h"

namespace heed {
namespace {

constexpr std::size_t kLongestCluster = 5;  // bytes; longer clusters are mapped character by character

int break_class(char32_t c) {
  return u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_GRAPHEME_CLUSTER_BREAK);
}

bool is_control(int kind) { return kind == U_GCB_CONTROL || kind == U_GCB_CR || kind == U_GCB_LF; }

/// Returns true if two neighbouring characters belong to one grapheme cluster (UAX 29). `pictograph`: the
/// cluster so far is a pictograph with extensions. `flags`: the number of regional indicators at its end.
bool joined(int a, int b, char32_t second, bool pictograph, int flags) {
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
    if (!joined(kind, next_kind, c, pictograph, flags)) break;
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

}  // namespace

Charsmap::Charsmap(std::string_view bytes, const JsonField& field) {
  std::uint32_t size = 0;
  if (bytes.size() >= 4) std::memcpy(&size, bytes.data(), 4);
  if (bytes.size() < 4 || size > bytes.size() - 4 || size % 4 != 0 || size == 0) {
    field.fail("a character map whose first four bytes are the size of its array");
  }
  units_.resize(size / 4);
  std::memcpy(units_.data(), bytes.data() + 4, size);
  replacements_ = bytes.substr(4 + size);
  if (replacements_.find('\0') == replacements_.npos) replacements_ += '\0';
  for (char c = 1; c > 0; ++c) {
    ascii_changes_[static_cast<std::size_t>(c)] = find(std::string_view(&c, 1)).has_value();
  }
}

std::optional<std::string_view> Charsmap::find(std::string_view chunk) const {
  const auto offset = [](std::uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); };
  std::uint32_t node = offset(units_[0]);
  for (const char c : chunk) {
    const std::uint32_t byte = static_cast<unsigned char>(c);
    node ^= byte;
    if (byte == 0 || node >= units_.size()) return std::nullopt;
    const std::uint32_t unit = units_[node];
    if ((unit & (1u << 31 | 0xFF)) != byte) return std::nullopt;
    node ^= offset(unit);
    if ((unit >> 8 & 1) == 0) continue;
    const std::uint32_t begin = node < units_.size() ? units_[node] & 0x7FFFFFFF : 0x7FFFFFFF;
    if (begin >= replacements_.size()) return std::nullopt;
    const std::size_t end = replacements_.find('\0', begin);
    const std::string_view found = std::string_view(replacements_).substr(begin, end - begin);
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
