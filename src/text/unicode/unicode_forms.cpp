// NFD, NFC, NFKD and NFKC with alignment. A decomposition's further characters count as inserted after its
// first; a composed character replaces all characters that it is composed of.
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/utf8.h"
#include "heed/error.h"
#include "text/pipeline/stages.h"
#include "text/unicode/character_class.h"

namespace heed {
namespace {

using Changes = std::vector<CharacterChange>;

const icu::Normalizer2& form_data(bool compatibility) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* data =
      compatibility ? icu::Normalizer2::getNFKCInstance(status) : icu::Normalizer2::getNFCInstance(status);
  if (U_FAILURE(status))
    throw Error(std::string("ICU: cannot load its normalization data: ") + u_errorName(status));
  return *data;
}

// The Unicode version of the tokenizers library's normalization forms.
constexpr int kFormsVersion = 9;

std::uint8_t combining_class(char32_t c) {
  const std::uint8_t own = c < 0x300 ? 0 : u_getCombiningClass(static_cast<UChar32>(c));
  return own != 0 && unicode_age(c) > kFormsVersion ? 0 : own;
}

/// Puts the runs of combining characters from `from` on into canonical order.
void order(Changes& changes, std::size_t from) {
  for (std::size_t i = from; i < changes.size();) {
    std::size_t end = i;
    while (end < changes.size() && combining_class(changes[end].character) != 0) ++end;
    if (end - i > 1) {
      std::stable_sort(changes.begin() + static_cast<std::ptrdiff_t>(i),
                       changes.begin() + static_cast<std::ptrdiff_t>(end),
                       [](const CharacterChange& a, const CharacterChange& b) {
                         return combining_class(a.character) < combining_class(b.character);
                       });
    }
    i = std::max(end, i + 1);
  }
}

Changes decompose(const std::string& text, const icu::Normalizer2& data) {
  Changes changes;
  changes.reserve(text.size());
  icu::UnicodeString parts;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (c < 0xA0 || !data.getDecomposition(static_cast<UChar32>(c), parts) ||
        unicode_age(c) > kFormsVersion) {
      changes.push_back({c, 0});
      continue;
    }
    for (std::int32_t i = 0; i < parts.length(); i = parts.moveIndex32(i, 1)) {
      changes.push_back({static_cast<char32_t>(parts.char32At(i)), i == 0 ? 0 : 1});
    }
  }
  order(changes, 0);
  return changes;
}

/// Composes each starter with the characters that follow it and are not blocked by one of the same or a
/// higher combining class.
Changes compose(const Changes& parts, const icu::Normalizer2& data) {
  Changes result;
  result.reserve(parts.size());
  std::size_t starter = parts.size();  // index in `result`; none yet
  std::uint8_t last_class = 0;
  for (const CharacterChange& part : parts) {
    const std::uint8_t own_class = combining_class(part.character);
    const bool adjacent = starter + 1 == result.size();
    if (starter < result.size() && (adjacent || (last_class != 0 && last_class < own_class))) {
      const UChar32 whole = part.character < 0x300
                                ? U_SENTINEL
                                : data.composePair(static_cast<UChar32>(result[starter].character),
                                                   static_cast<UChar32>(part.character));
      if (whole >= 0 && unicode_age(static_cast<char32_t>(whole)) <= kFormsVersion) {
        result[starter].character = static_cast<char32_t>(whole);
        result[starter].change += part.change - 1;
        continue;
      }
    }
    if (own_class == 0) starter = result.size();
    last_class = own_class;
    result.push_back(part);
  }
  return result;
}

}  // namespace

void normalize_unicode(NormalizedText& text, UnicodeForm form) {
  const bool compatibility = form == UnicodeForm::nfkd || form == UnicodeForm::nfkc;
  const bool composed = form == UnicodeForm::nfc || form == UnicodeForm::nfkc;
  // Decomposition, composition and reordering change no character below this.
  const char32_t harmless = composed && !compatibility ? 0x300 : 0xA0;
  const std::string& bytes = text.text();
  bool quick = true;
  for (std::size_t at = 0; at < bytes.size() && quick;) quick = next_character(bytes, at) < harmless;
  if (quick) return;
  const icu::Normalizer2& data = form_data(compatibility);
  const Changes parts = decompose(bytes, data);
  text = change_characters(text, composed ? compose(parts, data) : parts);
}

}  // namespace heed
