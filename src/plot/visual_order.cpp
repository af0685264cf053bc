#include "plot/visual_order.h"

#include <unicode/normalizer2.h>
#include <unicode/ubidi.h>
#include <unicode/ushape.h>

#include <algorithm>
#include <memory>

#include "heed/error.h"

namespace heed {
namespace {

void check_icu(UErrorCode status) {
  if (U_FAILURE(status)) throw Error(std::string("ICU: cannot order a line of text: ") + u_errorName(status));
}

icu::UnicodeString left_to_right(const icu::UnicodeString& line) {
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<UBiDi, decltype(&ubidi_close)> bidi(ubidi_open(), &ubidi_close);
  ubidi_setPara(bidi.get(), line.getBuffer(), line.length(), UBIDI_DEFAULT_LTR, nullptr, &status);
  icu::UnicodeString out;
  const std::int32_t room = 2 * line.length() + 1;
  const std::int32_t length = ubidi_writeReordered(
      bidi.get(), out.getBuffer(room), room,
      UBIDI_DO_MIRRORING | UBIDI_KEEP_BASE_COMBINING | UBIDI_REMOVE_BIDI_CONTROLS, &status);
  out.releaseBuffer(U_SUCCESS(status) ? length : 0);
  check_icu(status);
  return out;
}

icu::UnicodeString joined_letters(const icu::UnicodeString& line) {
  UErrorCode status = U_ZERO_ERROR;
  icu::UnicodeString out;
  const std::int32_t room = 2 * line.length() + 1;
  const std::int32_t length = u_shapeArabic(
      line.getBuffer(), line.length(), out.getBuffer(room), room,
      U_SHAPE_LETTERS_SHAPE | U_SHAPE_TEXT_DIRECTION_LOGICAL | U_SHAPE_LENGTH_GROW_SHRINK, &status);
  out.releaseBuffer(U_SUCCESS(status) ? length : 0);
  check_icu(status);
  return out;
}

}  // namespace

std::string visual_order(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
    return std::string(text);
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* composed = icu::Normalizer2::getNFCInstance(status);
  check_icu(status);
  const icu::UnicodeString line = composed->normalize(
      icu::UnicodeString::fromUTF8({text.data(), static_cast<std::int32_t>(text.size())}), status);
  check_icu(status);
  std::string out;
  return left_to_right(joined_letters(line)).toUTF8String(out);
}

}  // namespace heed
