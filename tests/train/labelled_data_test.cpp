// Labelled texts as real files have them.
#include "train/labelled_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/error.h"
#include "io/temporary_folder.h"

namespace heed {
namespace {

TEST(LabelledData, EntriesWithoutATextAreCountedAndLeftOut) {
  const TemporaryFolder folder;
  Recipe recipe;
  const auto read = [&](const std::string& format, const std::string& content) {
    recipe.data.format = format;
    spill(folder / "texts", content);
    return read_labelled(folder / "texts", recipe);
  };
  for (const auto& [format, content] : std::vector<std::pair<std::string, std::string>>{
           {"labelled", "1 good\n0 \n0\n\n0 not good\n"}, {"jsonl", R"({"label": 1, "text": "good"}
{"label": 0, "text": ""}
{"label": 0, "text": " "}
{"label": 0, "text": "not good"})"}}) {
    const LabelledTexts texts = read(format, content);
    EXPECT_EQ(texts.skipped, 2) << format;
    ASSERT_EQ(texts.texts.size(), 2u) << format;
    EXPECT_EQ(texts.texts[1].text, "not good");
    EXPECT_EQ(texts.texts[1].labels, std::vector<std::string>{"0"});
    EXPECT_EQ(texts.texts[1].line, format == "jsonl" ? 4 : 5);
  }
  EXPECT_THROW(read("labelled", "1\n0 \n"), Error);
}

}  // namespace
}  // namespace heed
