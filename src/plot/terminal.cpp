// Heat maps for terminals. Column labels are horizontal above their columns if all of them fit, otherwise
// vertical, which real sentences need.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include "heed/error.h"
#include "heed/plot/picture.h"
#include "heed/text/unicode.h"
#include "plot/color.h"
#include "plot/labels.h"
#include "plot/over_image.h"

namespace heed {
namespace {

constexpr std::string_view kShades = " .:-=+*#%@";
constexpr int kLongestRowLabel = 18;
constexpr int kLongestColumnLabel = 14;
constexpr int kWidestUprightCell = 9;

/// The layout of one map.
struct Layout {
  std::vector<std::string> rows, columns;  // labels
  int row_width = 0;                       // of the longest row label
  int cell = 2;                            // screen columns per key
  std::int64_t keys_per_block = 0;
  bool horizontal_labels = false;
};

std::vector<std::string> labels_of(const std::vector<std::string>& tokens, int longest) {
  std::vector<std::string> labels;
  for (const std::string& token : tokens) labels.push_back(plot::shorten(plot::visible(token), longest));
  return labels;
}

int widest(const std::vector<std::string>& labels) {
  int width = 0;
  for (const std::string& label : labels) width = std::max(width, display_width(label));
  return width;
}

Layout lay_out(const AttentionTokens& tokens, int width) {
  Layout layout;
  layout.rows = labels_of(tokens.queries, kLongestRowLabel);
  layout.columns = labels_of(tokens.keys, kLongestColumnLabel);
  layout.row_width = widest(layout.rows);
  const int room = width - layout.row_width - 1, keys = static_cast<int>(layout.columns.size());
  const int horizontal_labels = widest(layout.columns) + 1;
  layout.horizontal_labels = horizontal_labels <= kWidestUprightCell && horizontal_labels * keys <= room;
  if (layout.horizontal_labels) {
    layout.cell = std::max(horizontal_labels, 4);
    if (layout.cell * keys > room) layout.cell = horizontal_labels;
  } else {
    layout.cell = 3 * keys <= room ? 3 : 2;
  }
  layout.keys_per_block = std::max(1, room / layout.cell);
  return layout;
}

class TerminalWriter {
 public:
  TerminalWriter(const AttentionPicture& picture, const TerminalStyle& style)
      : picture_(picture), style_(style), scales_(plot::measure_scales(picture)) {}

  std::string write() {
    if (!picture_.title.empty()) out_ += plot::visible(picture_.title) + "\n\n";
    const std::vector<AttentionMap>& maps = picture_.maps;
    for (std::size_t first = 0, end = 0; first < maps.size(); first = end) {
      for (end = first + 1; end < maps.size() && share_head(maps[first], maps[end]);) ++end;
      write_map(std::span(maps).subspan(first, end - first));
    }
    for (const plot::MeasureScale& scale : scales_) legend(scale);
    if (scales_.size() > 1 && !picture_.over_image) out_ += "rows: queries, columns: keys\n";
    return out_;
  }

 private:
  /// Whether two maps are those of words, of one head.
  static bool share_head(const AttentionMap& a, const AttentionMap& b) {
    return !a.word.empty() && !b.word.empty() && a.measure == b.measure && a.layer == b.layer &&
           a.head == b.head;
  }

  void write_map(std::span<const AttentionMap> maps) {
    if (picture_.over_image) return write_over_image(maps);
    const AttentionMap& map = maps.front();
    const Layout layout = lay_out(plot::tokens_of(picture_, map), style_.width);
    out_ += plot::kind_title(map.kind) + ", " + plot::head_title(map);
    if (map.measure != "weights" && map.measure != "rollout") out_ += ", " + plot::measure_title(map.measure);
    out_ += "\n";
    for (std::int64_t first = 0; first < map.keys; first += layout.keys_per_block) {
      const std::int64_t last = std::min(map.keys, first + layout.keys_per_block);
      header(layout, first, last);
      for (std::int64_t query = 0; query < map.queries; ++query) row(map, layout, query, first, last);
      out_ += "\n";
    }
  }

  /// Words are side by side, as many as fit, below what they are the words of.
  void write_over_image(std::span<const AttentionMap> maps) {
    AttentionMap head = maps.front();
    head.word = {};
    out_ += plot::head_title(head);
    if (head.measure != "weights" && head.measure != "rollout")
      out_ += ", " + plot::measure_title(head.measure);
    out_ += "\n";
    constexpr int kGap = 2;
    const int width = 2 * static_cast<int>(head.keys);
    const auto across = static_cast<std::size_t>(std::max(1, (style_.width + kGap) / (width + kGap)));
    for (std::size_t first = 0; first < maps.size(); first += across) {
      const auto beside = maps.subspan(first, std::min(across, maps.size() - first));
      for (const AttentionMap& map : beside) {
        const std::string word = map.word.empty() ? "" : plot::shorten(plot::visible(map.word), width);
        const bool last = &map == &beside.back();
        out_ += last ? word + (word.empty() ? "" : "\n") : plot::pad_right(word, width + kGap);
      }
      for (std::int64_t row = 0; row < head.queries; ++row) {
        for (const AttentionMap& map : beside) {
          if (&map != &beside.front()) out_ += std::string(kGap, ' ');
          row_over_image(map, row);
        }
        out_ += "\n";
      }
      out_ += "\n";
    }
  }

  /// Two columns a part, which most terminals show as a square.
  void row_over_image(const AttentionMap& map, std::int64_t row) {
    const float largest = plot::largest_of(scales_, map.measure);
    for (std::int64_t column = 0; column < map.keys; ++column) {
      const float share = map.weights[static_cast<std::size_t>(row * map.keys + column)] / largest;
      if (style_.color && std::isfinite(share)) {
        block(plot::lit(plot::mean_color(picture_.image, row, column), static_cast<double>(share)), 2);
      } else {
        cell(share, 2);
      }
    }
    if (style_.color) out_ += "\x1b[0m";
  }

  void block(plot::Rgb color, std::size_t width) {
    out_ += fmt::format("\x1b[48;2;{};{};{}m", color.r, color.g, color.b) + std::string(width, ' ');
  }

  void header(const Layout& layout, std::int64_t first, std::int64_t last) {
    const std::string margin(static_cast<std::size_t>(layout.row_width + 1), ' ');
    if (layout.horizontal_labels) {
      out_ += margin;
      for (std::int64_t key = first; key < last; ++key) {
        out_ += plot::pad_right(layout.columns[static_cast<std::size_t>(key)], layout.cell);
      }
      out_ += "\n";
      return;
    }
    std::vector<std::vector<std::string>> stacks;
    std::size_t height = 0;
    for (std::int64_t key = first; key < last; ++key) {
      stacks.push_back(plot::clusters(layout.columns[static_cast<std::size_t>(key)]));
      height = std::max(height, stacks.back().size());
    }
    for (std::size_t line = 0; line < height; ++line) {
      out_ += margin;
      for (const std::vector<std::string>& stack : stacks) {
        const std::size_t above = height - stack.size();
        out_ += plot::pad_right(line < above ? "" : stack[line - above], layout.cell);
      }
      out_ += "\n";
    }
  }

  void row(const AttentionMap& map, const Layout& layout, std::int64_t query, std::int64_t first,
           std::int64_t last) {
    out_ += plot::pad_left(layout.rows[static_cast<std::size_t>(query)], layout.row_width) + " ";
    const float largest = plot::largest_of(scales_, map.measure);
    for (std::int64_t key = first; key < last; ++key) {
      cell(map.weights[static_cast<std::size_t>(query * map.keys + key)] / largest, layout.cell);
    }
    out_ += style_.color ? "\x1b[0m\n" : "\n";
  }

  /// Appends a cell. `value` is relative to the largest of its measure; NaN is shown as a question mark.
  void cell(float value, int width) {
    const std::size_t size = static_cast<std::size_t>(width);
    if (!std::isfinite(value)) {
      out_ += (style_.color ? "\x1b[0m?" : "?") + std::string(size - 1, ' ');
    } else if (style_.color) {
      // Dark for small and bright for large weights: most weights are near zero, and most terminals are dark.
      const plot::Rgb color = value < 0 ? plot::shade(-1.0 - 0.75 * static_cast<double>(value), Palette::blue)
                                        : plot::shade(1.0 - static_cast<double>(value));
      block(color, size);
    } else {
      const int level = std::clamp(static_cast<int>(std::abs(value) * static_cast<float>(kShades.size())), 0,
                                   static_cast<int>(kShades.size()) - 1);
      out_ += std::string(size - 1, kShades[static_cast<std::size_t>(level)]);
      out_ += value < 0 && level > 0 ? '-' : ' ';
    }
  }

  /// Names the measure where there are several.
  void legend(const plot::MeasureScale& scale) {
    out_ += "0 ";
    if (style_.color) {
      constexpr int kSteps = 24;
      for (int i = 0; i < kSteps; ++i) {
        const float share = static_cast<float>(i) / (kSteps - 1);
        picture_.over_image ? block(plot::lit({255, 255, 255}, static_cast<double>(share)), 1)
                            : cell(share, 1);
      }
      out_ += "\x1b[0m";
    } else {
      out_ += fmt::format("[{}]", kShades);
    }
    out_ += fmt::format(" {:.3g}   {}\n", scale.largest,
                        scales_.size() > 1    ? plot::measure_title(scale.measure)
                        : picture_.over_image ? "bright: where the weights are large"
                                              : "rows: queries, columns: keys");
  }

  const AttentionPicture& picture_;
  TerminalStyle style_;
  std::vector<plot::MeasureScale> scales_;
  std::string out_;
};

}  // namespace

std::string attention_terminal(const AttentionPicture& picture, const TerminalStyle& style) {
  plot::check_picture(picture);
  if (style.width < 40) {
    throw Error(
        fmt::format("attention picture: expected a width of at least 40 columns, got {}", style.width));
  }
  return TerminalWriter(picture, style).write();
}

}  // namespace heed
