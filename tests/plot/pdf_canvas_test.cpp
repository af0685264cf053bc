// Figures as PDF: the size of the page, what is drawn on it, and its text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "heed/plot/picture.h"
#include "heed/plot/report.h"
#include "plot/sample.h"
#include "reference/error.h"

namespace heed {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// All streams of a file, as plain bytes.
std::string streams_of(const std::string& file) {
  std::string all;
  for (std::size_t at = 0; (at = file.find("stream\n", at)) != std::string::npos;) {
    at += 7;
    const std::size_t end = file.find("endstream", at);
    if (end == std::string::npos) break;
    std::string plain(1 << 20, '\0');
    uLongf size = plain.size();
    if (uncompress(reinterpret_cast<Bytef*>(plain.data()), &size, reinterpret_cast<const Bytef*>(&file[at]),
                   end - at) == Z_OK)
      all.append(plain, 0, size);
    at = end + 9;
  }
  return all;
}

TEST(Pdf, TheCellsOfMapsAreBoxes) {
  const std::string file = attention_pdf(sample_picture(2, 2));
  EXPECT_THAT(file, StartsWith("%PDF-1."));
  EXPECT_EQ(file, attention_pdf(sample_picture(2, 2)));
  AttentionPicture larger = sample_picture(2, 2);
  std::size_t cells = 0;
  for (const AttentionMap& map : larger.maps) cells += map.weights.size();
  // Each cell is a box of its own; so are the frames of maps and legend, and what cairo clips.
  const std::size_t boxes = count(streams_of(file), " re");
  EXPECT_GE(boxes, cells);
  EXPECT_LE(boxes, cells + 4 * larger.maps.size() + 4);
  EXPECT_THAT(file, HasSubstr("/FontFile"));
}

TEST(Pdf, ThePageIsAsWideAsAsked) {
  ReportTable table{.title = "Heads",
                    .rows_title = "",
                    .legend = "",
                    .rows = {"0"},
                    .columns = {"a"},
                    .cells = {{{"1", 1}}}};
  const double width = 85 * 96 / 25.4;
  EXPECT_THAT(table_pdf(table, {.width = width}), HasSubstr("/MediaBox [ 0 0 240.94"));  // points
  table.cells.assign(1, std::vector<ReportCell>(100001, ReportCell{"1", 1}));
  table.columns.assign(100001, "a");
  EXPECT_ERROR(table_pdf(table), "cells in a figure, got 100001");
}

TEST(Pdf, TextIsText) {
  const ReportTable table{.title = "Köpfe",
                          .rows_title = "",
                          .legend = "",
                          .rows = {"0"},
                          .columns = {"a"},
                          .cells = {{{"−1.5", 1}}}};
  // A font that is embedded has a table from its glyphs to characters.
  const std::string all = streams_of(table_pdf(table));
  EXPECT_THAT(all, HasSubstr("beginbfchar"));
  EXPECT_THAT(all, HasSubstr(R"((K\366pfe)Tj)"));
  EXPECT_THAT(all, HasSubstr("<2212>"));
}

}  // namespace
}  // namespace heed
