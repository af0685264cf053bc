// Text of PNG and PDF: characters from the system's fonts, which fontconfig finds and FreeType draws, each
// from the first font that has it. A character follows the other, without kerning; combining marks stand over
// the character before them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

struct FT_FaceRec_;

namespace heed::plot {

/// FreeType's FT_Face.
using FontFile = FT_FaceRec_*;

/// Where a character of a line stands.
struct PlacedGlyph {
  FontFile file = nullptr;
  unsigned index = 0;      ///< of its glyph
  double ems = 0;          ///< from the start of the line
  std::string_view bytes;  ///< the character in UTF-8
};

struct FontLine {
  double x = 0, y = 0;  ///< of the baseline's start, in pixels
  double size = 0;      ///< pixels of an em
  bool bold = false;
  bool rises = false;  ///< at 60 degrees
};

/// Receives a pixel and how much of it is covered, from 1 to 255.
using PutPixel = std::function<void(std::int64_t x, std::int64_t y, std::uint8_t coverage)>;

/// Returns valid UTF-8 text in normal form C, its characters in the order in which a line shows them from
/// left to right (Unicode's bidirectional algorithm), Arabic letters in their joined forms: what a program
/// draws that places one character after the other.
std::string visual_order(std::string_view text);

/// Threads: one at a time may use an object.
class Fonts {
 public:
  /// Throws Error if the system has no font.
  Fonts();
  ~Fonts();
  Fonts(const Fonts&) = delete;
  Fonts& operator=(const Fonts&) = delete;

  /// Returns the width of valid UTF-8 text in ems.
  double width_of(const std::string& text, bool bold);
  void draw(const std::string& text, const FontLine& line, const PutPixel& put);
  /// Calls `put` with each character that is drawn. Its font's file stays open as long as this object.
  void place(const std::string& text, bool bold, const std::function<void(const PlacedGlyph&)>& put);

 private:
  class Face;
  struct Glyph;
  class Family;
  struct Libraries;

  std::unique_ptr<Libraries> libraries_;
  std::unique_ptr<Family> families_[2];  // regular and bold
  Family& family(bool bold);
};

}  // namespace heed::plot
