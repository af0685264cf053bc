// Tables as spreadsheets and scripts write them.
#include "data/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/error.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Row = std::vector<std::string>;

struct NumberedRow {
  std::int64_t line;
  Row fields;
  bool operator==(const NumberedRow&) const = default;
};

class TableTest : public testing::Test {
 protected:
  std::vector<NumberedRow> read(const std::string& content, const std::string& format, bool header = false) {
    spill(folder_ / "table", content);
    data::Table table(folder_ / "table", format, header);
    std::vector<NumberedRow> rows;
    for (Row row; table.next(row);) rows.push_back({table.line(), row});
    return rows;
  }
  std::string refusal(const std::string& content) {
    return error_of([&] { read(content, "csv"); });
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(TableTest, TabsSeparateFieldsAsTheyAre) {
  EXPECT_THAT(
      read("\xEF\xBB\xBF"
           "a\t\"b\"\r\n\n\tc,d\t",
           "tsv"),
      ElementsAre(NumberedRow{1, {"a", "\"b\""}}, NumberedRow{2, {""}}, NumberedRow{3, {"", "c,d", ""}}));
}

// What Python's csv.reader reads of the same bytes.
TEST_F(TableTest, QuotedFieldsAreThoseOfRfc4180) {
  EXPECT_THAT(
      read("a,b\r\n\"x, y\",\"says \"\"no\"\"\"\n\"two\r\nlines\",\n\"\",\"\"\"\"\nun\"quoted, \"z\"\n",
           "csv"),
      ElementsAre(NumberedRow{1, {"a", "b"}}, NumberedRow{2, {"x, y", "says \"no\""}},
                  NumberedRow{3, {"two\nlines", ""}}, NumberedRow{5, {"", "\""}},
                  NumberedRow{6, {"un\"quoted", " \"z\""}}));
  EXPECT_THAT(refusal("a,b\nc,\"d\ne\n"), HasSubstr("table:2: expected the quote that ends a field"));
  EXPECT_THAT(refusal("a\n\"b\"c,d\n"),
              HasSubstr("table:2: expected a comma after the quote that ends a field, got \"c,d\""));
}

TEST_F(TableTest, AHeaderIsARowThatIsNotRead) {
  EXPECT_THAT(read("label\ttext\ngood\tfine\n", "tsv", true), ElementsAre(NumberedRow{2, {"good", "fine"}}));
  EXPECT_THAT(read("\"la\nbel\",text\ngood,fine\n", "csv", true),
              ElementsAre(NumberedRow{3, {"good", "fine"}}));
  EXPECT_THAT(read("label\ttext\n", "tsv", true), ElementsAre());
}

TEST_F(TableTest, ControlBytesAreCounted) {
  const TemporaryFolder folder;
  spill(folder / "t", std::string("a\0b\tc\x1b\f\r\n\xFF\x7f", 11));
  data::Table table(folder / "t", "tsv", false);
  Row row;
  ASSERT_TRUE(table.next(row));
  EXPECT_TRUE(table.is_utf8());
  EXPECT_THAT(row, ElementsAre(std::string("a\0b", 3), "c\x1b\f"));
  ASSERT_TRUE(table.next(row));
  EXPECT_FALSE(table.is_utf8());
  EXPECT_EQ(table.control_bytes(), 3);
  EXPECT_EQ(data::count_control_bytes("plain text\t\r\n\v\f \xC3\xA9"), 0);
}

}  // namespace
}  // namespace heed
