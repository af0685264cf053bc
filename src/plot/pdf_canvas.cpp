// Boxes, images and glyphs of a page.
#include "plot/pdf_canvas.h"

#include <cairo-ft.h>
#include <cairo-pdf.h>

#include <cmath>
#include <map>
#include <vector>

#include "heed/error.h"
#include "plot/figure.h"
#include "plot/fonts.h"

namespace heed::plot {
namespace {

constexpr double kPoints = 72.0 / 96;
constexpr double kSixtyDegrees = 1.0471975511965976;
constexpr Rgb kPdfFrame{0xc4, 0xc4, 0xc4}, kPdfNoNumber{0xcc, 0xcc, 0xcc};

void set_color(cairo_t* cairo, Rgb color, double opacity = 1) {
  cairo_set_source_rgba(cairo, color.r / 255.0, color.g / 255.0, color.b / 255.0, opacity);
}

Rgb ink_color(Ink ink) {
  return ink == Ink::dark   ? Rgb{0x22, 0x22, 0x22}
         : ink == Ink::gray ? Rgb{0x55, 0x55, 0x55}
                            : Rgb{255, 255, 255};
}

class PdfCanvas final : public Canvas {
 public:
  PdfCanvas(double width, Palette palette) : width_(width), palette_(palette) {}
  ~PdfCanvas() override;
  PdfCanvas(const PdfCanvas&) = delete;
  PdfCanvas& operator=(const PdfCanvas&) = delete;

  /// The whole file. Throws Error if cairo failed.
  std::string finish();

  bool measures() const override { return true; }
  double width_of(const std::string& text, const TextStyle& style) const override {
    return style.size * fonts_.width_of(text, style.bold);
  }
  void open(double width, double height) override;
  void text(const PlacedText& line, const TextStyle& style) override { draw(line, style, false); }
  void labels(const std::vector<PlacedText>& labels, const TextStyle& style, bool rise) override;
  void map(const PlacedMap& placed) override;
  void raster(const Pixels& pixels, const Box& box, const std::string& tooltip) override;
  void image(const InputImage& image, const Box& box) override {
    raster({image.width, image.height, image.rgb}, box, "");
  }
  void outline(const Box& box, Rgb color) override;
  void cell(const TableCell& cell, const TextStyle& style) override;
  double resolution() const override { return 2; }
  Palette palette() const override { return palette_; }
  void legend(const Legend& legend, const TextStyle& style) override;

 private:
  void fill(const Box& box, Rgb color, double opacity = 1);
  void draw(const PlacedText& label, const TextStyle& style, bool rise);

  mutable Fonts fonts_;
  double width_;  // of the page; 0: as the figure needs
  Palette palette_;
  std::string bytes_;
  cairo_surface_t* surface_ = nullptr;
  cairo_t* cairo_ = nullptr;
  std::map<FontFile, cairo_font_face_t*> faces_;
};

PdfCanvas::~PdfCanvas() {
  if (cairo_ != nullptr) cairo_destroy(cairo_);
  if (surface_ != nullptr) cairo_surface_destroy(surface_);
  for (const auto& [file, face] : faces_) cairo_font_face_destroy(face);
}

void PdfCanvas::open(double width, double height) {
  const double scale = kPoints * (width_ > 0 ? width_ / width : 1);
  const auto append = [](void* bytes, const unsigned char* data, unsigned length) {
    static_cast<std::string*>(bytes)->append(reinterpret_cast<const char*>(data), length);
    return CAIRO_STATUS_SUCCESS;
  };
  surface_ = cairo_pdf_surface_create_for_stream(append, &bytes_, width * scale, height * scale);
  // The same figure is the same file.
  cairo_pdf_surface_set_metadata(surface_, CAIRO_PDF_METADATA_CREATE_DATE, "1970-01-01T00:00:00Z");
  cairo_ = cairo_create(surface_);
  cairo_scale(cairo_, scale, scale);
}

std::string PdfCanvas::finish() {
  cairo_show_page(cairo_);
  cairo_surface_finish(surface_);
  cairo_status_t status = cairo_status(cairo_);
  if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_status(surface_);
  if (status != CAIRO_STATUS_SUCCESS)
    throw Error(std::string("PDF: cannot be written: ") + cairo_status_to_string(status));
  return std::move(bytes_);
}

void PdfCanvas::fill(const Box& box, Rgb color, double opacity) {
  set_color(cairo_, color, opacity);
  cairo_rectangle(cairo_, box.left, box.top, box.width, box.height);
  cairo_fill(cairo_);
}

void PdfCanvas::draw(const PlacedText& label, const TextStyle& style, bool rise) {
  const double shift = style.anchor == Anchor::start ? 0
                       : style.anchor == Anchor::end ? width_of(label.text, style)
                                                     : width_of(label.text, style) / 2;
  cairo_save(cairo_);
  cairo_translate(cairo_, label.x, label.y);
  if (rise) cairo_rotate(cairo_, -kSixtyDegrees);
  cairo_translate(cairo_, -shift, 0);
  set_color(cairo_, ink_color(style.ink));
  fonts_.place(label.text, style.bold, [&](const PlacedGlyph& placed) {
    cairo_font_face_t*& face = faces_[placed.file];
    if (face == nullptr) face = cairo_ft_font_face_create_for_ft_face(placed.file, FT_LOAD_NO_HINTING);
    cairo_set_font_face(cairo_, face);
    cairo_set_font_size(cairo_, style.size);
    const cairo_glyph_t glyph{placed.index, placed.ems * style.size, 0};
    const cairo_text_cluster_t cluster{static_cast<int>(placed.bytes.size()), 1};
    cairo_show_text_glyphs(cairo_, placed.bytes.data(), static_cast<int>(placed.bytes.size()), &glyph, 1,
                           &cluster, 1, cairo_text_cluster_flags_t{});
  });
  cairo_restore(cairo_);
}

void PdfCanvas::labels(const std::vector<PlacedText>& labels, const TextStyle& style, bool rise) {
  for (const PlacedText& label : labels) draw(label, style, rise);
}

void PdfCanvas::map(const PlacedMap& placed) {
  const Section& section = placed.section;
  const bool over_image = section.image != nullptr;
  const double gap = over_image ? 0 : gap_of(section.cell);
  const double high = over_image ? section.row : section.cell;
  const Box panel{placed.left, placed.top, section.panel_width(), section.panel_height()};
  if (over_image) {
    image(*section.image, panel);
    fill(panel, {255, 255, 255}, kPale);
  }
  for (std::int64_t query = 0; query < placed.map.queries; ++query) {
    for (std::int64_t key = 0; key < placed.map.keys; ++key) {
      const float weight = placed.map.weights[static_cast<std::size_t>(query * placed.map.keys + key)];
      const double share = static_cast<double>(weight / placed.largest);
      fill({placed.left + static_cast<double>(key) * section.cell,
            placed.top + static_cast<double>(query) * high, section.cell - gap, high - gap},
           std::isfinite(share) ? shade(share, palette_) : kPdfNoNumber,
           over_image && std::isfinite(share) ? density(share) : 1);
    }
  }
  outline({panel.left - 1.5, panel.top - 1.5, panel.width + 3 - gap, panel.height + 3 - gap}, kPdfFrame);
}

void PdfCanvas::raster(const Pixels& pixels, const Box& box, const std::string& /*tooltip*/) {
  const int width = static_cast<int>(pixels.width), height = static_cast<int>(pixels.height);
  cairo_surface_t* image = cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
  const int stride = cairo_image_surface_get_stride(image);
  unsigned char* data = cairo_image_surface_get_data(image);
  for (int y = 0; data != nullptr && y < height; ++y) {
    auto* row = reinterpret_cast<std::uint32_t*>(data + static_cast<std::ptrdiff_t>(y) * stride);
    const std::uint8_t* from = &pixels.rgb[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) * 3];
    for (int x = 0; x < width; ++x, from += 3)
      row[x] = static_cast<std::uint32_t>(from[0]) << 16 | static_cast<std::uint32_t>(from[1]) << 8 | from[2];
  }
  cairo_surface_mark_dirty(image);
  cairo_save(cairo_);
  cairo_translate(cairo_, box.left, box.top);
  cairo_scale(cairo_, box.width / width, box.height / height);
  cairo_set_source_surface(cairo_, image, 0, 0);
  cairo_pattern_set_filter(cairo_get_source(cairo_), CAIRO_FILTER_NEAREST);
  cairo_rectangle(cairo_, 0, 0, width, height);
  cairo_fill(cairo_);
  cairo_restore(cairo_);
  cairo_surface_destroy(image);
}

void PdfCanvas::outline(const Box& box, Rgb color) {
  set_color(cairo_, color);
  cairo_set_line_width(cairo_, 1);
  cairo_rectangle(cairo_, box.left, box.top, box.width, box.height);
  cairo_stroke(cairo_);
}

void PdfCanvas::cell(const TableCell& cell, const TextStyle& style) {
  fill(cell.box, cell.color);
  text(cell.text, style);
}

void PdfCanvas::legend(const Legend& legend, const TextStyle& style) {
  constexpr int kStops = 32;
  cairo_pattern_t* colors = cairo_pattern_create_linear(legend.left, 0, legend.left + legend.width, 0);
  for (int i = 0; i <= kStops; ++i) {
    const double at = static_cast<double>(i) / kStops, value = legend.first + (1 - legend.first) * at;
    const Rgb color = legend.over_image ? covered({255, 255, 255}, value, palette_) : shade(value, palette_);
    cairo_pattern_add_color_stop_rgb(colors, at, color.r / 255.0, color.g / 255.0, color.b / 255.0);
  }
  const Box bar{legend.left, legend.top, legend.width, kLegendBarHeight};
  cairo_set_source(cairo_, colors);
  cairo_rectangle(cairo_, bar.left, bar.top, bar.width, bar.height);
  cairo_fill(cairo_);
  cairo_pattern_destroy(colors);
  outline(bar, kPdfFrame);
  text(legend.low, style);
  text(legend.high, style);
}

}  // namespace

std::string pdf_page(double width, Palette palette, const std::function<void(Canvas&)>& draw) {
  PdfCanvas canvas(width, palette);
  draw(canvas);
  return canvas.finish();
}

}  // namespace heed::plot
