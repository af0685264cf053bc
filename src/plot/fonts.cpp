// Orders the characters of a line, and takes them from the system's fonts.
#include "plot/fonts.h"

#include <fontconfig/fontconfig.h>
#include <ft2build.h>
#include FT_FREETYPE_H
#include FT_OUTLINE_H
#include <unicode/normalizer2.h>
#include <unicode/ubidi.h>
#include <unicode/ushape.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/utf8.h"
#include "heed/error.h"
#include "heed/text/unicode.h"

namespace heed::plot {
namespace {

// The families that the SVG figure asks for.
constexpr const char* kFamilies[] = {"DejaVu Sans", "Noto Sans", "sans-serif"};

constexpr double kCosine = 0.5, kSine = 0.8660254037844386;  // of 60 degrees

[[noreturn]] void fail_without_font() {
  throw Error(
      "figure: no font found for the text of the figure (install one, e.g. Debian's package "
      "fonts-dejavu-core, "
      "or write SVG)");
}

FT_Fixed fixed16(double x) { return static_cast<FT_Fixed>(std::lround(x * 65536)); }

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

struct Fonts::Libraries {
  FT_Library freetype = nullptr;
  FcConfig* fontconfig = nullptr;

  Libraries() : fontconfig(FcInitLoadConfigAndFonts()) {
    if (FT_Init_FreeType(&freetype) != 0) throw Error("figure: cannot start FreeType");
    if (fontconfig == nullptr) fail_without_font();
  }
  ~Libraries() {
    if (fontconfig != nullptr) FcConfigDestroy(fontconfig);
    FT_Done_FreeType(freetype);
  }
};

struct Fonts::Glyph {
  Face* face = nullptr;
  FT_UInt index = 0;
  bool mark = false;                      // stands over the character before it
  double advance = 0, left = 0, ink = 0;  // in ems; ink: its width from `left`
};

/// A font's file, opened when a character needs it.
class Fonts::Face {
 public:
  explicit Face(FcPattern* pattern) : pattern_(pattern) {}
  ~Face() {
    if (face_ != nullptr) FT_Done_Face(face_);
  }
  Face(const Face&) = delete;
  Face& operator=(const Face&) = delete;

  bool has(char32_t character) const {
    FcCharSet* characters = nullptr;
    return FcPatternGetCharSet(pattern_, FC_CHARSET, 0, &characters) == FcResultMatch &&
           FcCharSetHasChar(characters, character) != FcFalse;
  }

  /// Returns the character's glyph, or nullopt where the file cannot be used.
  std::optional<Glyph> glyph(char32_t character, FT_Library library) {
    if (!open(library)) return std::nullopt;
    const FT_UInt index = FT_Get_Char_Index(face_, character);
    if (FT_Load_Glyph(face_, index, FT_LOAD_NO_SCALE) != 0) return std::nullopt;
    const FT_Glyph_Metrics& metrics = face_->glyph->metrics;
    const double em = face_->units_per_EM;
    return Glyph{this,
                 index,
                 false,
                 static_cast<double>(metrics.horiAdvance) / em,
                 static_cast<double>(metrics.horiBearingX) / em,
                 static_cast<double>(metrics.width) / em};
  }

  FT_Face file() const { return face_; }

  void draw(FT_UInt index, const FontLine& line, const PutPixel& put) {
    const double x = std::floor(line.x), y = std::floor(line.y);
    FT_Set_Char_Size(face_, 0, std::lround(line.size * 64), 72, 72);
    // Light hinting moves stems up and down only, to whole pixels of lines that are level.
    if (FT_Load_Glyph(face_, index, line.rises ? FT_LOAD_NO_HINTING : FT_LOAD_TARGET_LIGHT) != 0) return;
    FT_GlyphSlot slot = face_->glyph;
    if (slot->format != FT_GLYPH_FORMAT_OUTLINE) return;
    if (line.rises) {
      FT_Matrix turn{fixed16(kCosine), fixed16(-kSine), fixed16(kSine), fixed16(kCosine)};
      FT_Outline_Transform(&slot->outline, &turn);
    }
    FT_Outline_Translate(&slot->outline, std::lround((line.x - x) * 64), std::lround((y - line.y) * 64));
    if (FT_Render_Glyph(slot, FT_RENDER_MODE_NORMAL) != 0) return;
    const FT_Bitmap& bitmap = slot->bitmap;
    for (unsigned row = 0; row < bitmap.rows; ++row) {
      const unsigned char* covered = bitmap.buffer + static_cast<std::ptrdiff_t>(row) * bitmap.pitch;
      for (unsigned column = 0; column < bitmap.width; ++column) {
        if (covered[column] == 0) continue;
        put(static_cast<std::int64_t>(x) + slot->bitmap_left + column,
            static_cast<std::int64_t>(y) - slot->bitmap_top + row, covered[column]);
      }
    }
  }

 private:
  bool open(FT_Library library) {
    if (face_ != nullptr) return true;
    FcChar8* file = nullptr;
    int index = 0;
    if (FcPatternGetString(pattern_, FC_FILE, 0, &file) != FcResultMatch) return false;
    FcPatternGetInteger(pattern_, FC_INDEX, 0, &index);
    const auto* path = reinterpret_cast<const char*>(file);
    if (FT_New_Face(library, path, index, &face_) != 0) return false;
    return FT_IS_SCALABLE(face_) && face_->units_per_EM > 0;
  }

  FcPattern* pattern_;
  FT_Face face_ = nullptr;
};

/// The fonts of one weight in the order of preference.
class Fonts::Family {
 public:
  Family(Libraries& libraries, bool bold) : libraries_(libraries) {
    FcPattern* pattern = FcPatternCreate();
    for (const char* name : kFamilies)
      FcPatternAddString(pattern, FC_FAMILY, reinterpret_cast<const FcChar8*>(name));
    FcPatternAddInteger(pattern, FC_WEIGHT, bold ? FC_WEIGHT_DEMIBOLD : FC_WEIGHT_REGULAR);
    FcPatternAddInteger(pattern, FC_SLANT, FC_SLANT_ROMAN);
    FcConfigSubstitute(libraries.fontconfig, pattern, FcMatchPattern);
    FcDefaultSubstitute(pattern);
    FcResult result = FcResultNoMatch;
    fonts_ = FcFontSort(libraries.fontconfig, pattern, FcTrue, nullptr, &result);
    FcPatternDestroy(pattern);
    for (int i = 0; fonts_ != nullptr && i < fonts_->nfont; ++i) {
      FcBool outline = FcFalse;  // pictures of emoji have none
      FcPatternGetBool(fonts_->fonts[i], FC_OUTLINE, 0, &outline);
      if (outline != FcFalse) faces_.push_back(std::make_unique<Face>(fonts_->fonts[i]));
    }
    missing_ = first_glyph(0xFFFD, [](const Face&) { return true; });
  }
  ~Family() {
    faces_.clear();
    if (fonts_ != nullptr) FcFontSetDestroy(fonts_);
  }
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  bool empty() const { return !missing_; }

  /// Calls place(glyph, x, bytes) for each character that is drawn, x in ems from the start. Returns the
  /// line's width.
  template <class Place>
  double walk(const std::string& text, const Place& place) {
    const std::string line = visual_order(text);
    double x = 0, base = 0;  // base: the middle of the last character
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t begin = at;
      const char32_t character = next_character(line, at);
      const std::string_view bytes = std::string_view(line).substr(begin, at - begin);
      const std::optional<Glyph>& glyph = glyph_of(character, bytes);
      if (!glyph) continue;
      if (glyph->mark) {
        place(*glyph, base - glyph->left - glyph->ink / 2, bytes);
        continue;
      }
      place(*glyph, x, bytes);
      base = x + glyph->advance / 2;
      x += glyph->advance;
    }
    return x;
  }

 private:
  /// Returns nullopt for marks and format characters that no font has; other such characters become a box.
  const std::optional<Glyph>& glyph_of(char32_t character, std::string_view bytes) {
    const auto [found, is_new] = glyphs_.try_emplace(character);
    if (!is_new) return found->second;
    const bool mark = display_width(bytes) == 0;
    found->second = first_glyph(character, [character](const Face& face) { return face.has(character); });
    if (!found->second && !mark) found->second = missing_;
    if (found->second) found->second->mark = mark;
    return found->second;
  }

  template <class Suits>
  std::optional<Glyph> first_glyph(char32_t character, const Suits& suits) {
    for (const auto& face : faces_) {
      if (!suits(*face)) continue;
      if (const auto glyph = face->glyph(character, libraries_.freetype)) return glyph;
    }
    return std::nullopt;
  }

  Libraries& libraries_;
  FcFontSet* fonts_ = nullptr;
  std::vector<std::unique_ptr<Face>> faces_;
  std::unordered_map<char32_t, std::optional<Glyph>> glyphs_;
  std::optional<Glyph> missing_;
};

Fonts::Fonts() : libraries_(std::make_unique<Libraries>()) {
  if (family(false).empty()) fail_without_font();
}

Fonts::~Fonts() = default;

Fonts::Family& Fonts::family(bool bold) {
  std::unique_ptr<Family>& family = families_[bold ? 1 : 0];
  if (!family) family = std::make_unique<Family>(*libraries_, bold);
  return *family;
}

double Fonts::width_of(const std::string& text, bool bold) {
  return family(bold).walk(text, [](const Glyph&, double, std::string_view) {});
}

void Fonts::draw(const std::string& text, const FontLine& line, const PutPixel& put) {
  family(line.bold).walk(text, [&](const Glyph& glyph, double ems, std::string_view) {
    FontLine one = line;
    one.x += ems * line.size * (line.rises ? kCosine : 1);
    one.y -= ems * line.size * (line.rises ? kSine : 0);
    glyph.face->draw(glyph.index, one, put);
  });
}

void Fonts::place(const std::string& text, bool bold, const std::function<void(const PlacedGlyph&)>& put) {
  family(bold).walk(text, [&](const Glyph& glyph, double ems, std::string_view bytes) {
    put({glyph.face->file(), glyph.index, ems, bytes});
  });
}

}  // namespace heed::plot
