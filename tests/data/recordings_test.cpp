// Reading recordings with their texts.
#include "data/corpora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/files/file.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using ::testing::HasSubstr;

class Recordings : public ::testing::Test {
 protected:
  LabeledTexts read(const char* name) const { return read_recordings(folder_ / name, data_, {}); }
  void expect_two(const LabeledTexts& read) const {
    ASSERT_EQ(read.size(), 2);
    EXPECT_EQ(read[0].text, (folder_ / "a.wav").string());
    EXPECT_EQ(read[0].labels.front(), "one, two");
    EXPECT_EQ(read[1].text, (folder_ / "b/c.mp3").string());
    EXPECT_EQ(read[1].labels.front(), "three");
    EXPECT_EQ(read.skipped, 1);
  }
  TemporaryFolder folder_;
  DataOptions data_ = [] {
    DataOptions options;
    options.format = "tsv";
    options.source_key = "audio";
    options.target_key = "text";
    return options;
  }();
};

TEST_F(Recordings, OfTables) {
  write_file(folder_ / "list.tsv", "a.wav\tone, two\nb/c.mp3\t three \nd.wav\t\n\n");
  expect_two(read("list.tsv"));
  data_.format = "csv";
  data_.header = true;
  data_.source_column = 3;
  data_.target_column = 1;
  write_file(folder_ / "list.csv", "text,speaker,path\n\"one, two\",x,a.wav\nthree,y,b/c.mp3\n,z,d.wav\n");
  expect_two(read("list.csv"));
}

TEST_F(Recordings, OfJsonLines) {
  data_.format = "jsonl";
  write_file(folder_ / "list.jsonl",
             R"({"audio": "a.wav", "text": "one, two"}
{"text": "three", "audio": "b/c.mp3", "seconds": 3}
{"text": " ", "audio": "d.wav"}
)");
  expect_two(read("list.jsonl"));
}

TEST_F(Recordings, OfFoldersWithMetadata) {
  data_.format = "folders";
  data_.target_key = "transcription";
  write_file(folder_ / "metadata.jsonl",
             R"({"file_name": "a.wav", "transcription": "one, two"}
{"file_name": "b/c.mp3", "transcription": "three"}
{"file_name": "d.wav", "transcription": ""})");
  expect_two(read(""));
  write_file(folder_ / "metadata.csv",
             "speaker,file_name,transcription\nx,a.wav,\"one, two\"\ny,b/c.mp3,three\nz,d.wav,\n");
  expect_two(read(""));
}

TEST_F(Recordings, NameWhatIsWrong) {
  EXPECT_ERROR(read("none.tsv"), "none.tsv");
  write_file(folder_ / "list.tsv", "a.wav\tone\nb.wav\n");
  EXPECT_ERROR(read("list.tsv"), "list.tsv:2: expected 2 columns separated by tabs, got 1");
  write_file(folder_ / "list.tsv", "a.wav\tone\nb.wav\ttwo\tthree\n");
  EXPECT_ERROR(read("list.tsv"), "list.tsv:2: expected 2 columns, as in the first row, got 3");
  write_file(folder_ / "list.tsv", " \tone\n");
  EXPECT_ERROR(read("list.tsv"), "list.tsv:1: expected the path of a sound");
  write_file(folder_ / "list.tsv", "a.wav\t\xff\n");
  EXPECT_ERROR(read("list.tsv"), "list.tsv:1: expected UTF-8");
  write_file(folder_ / "list.tsv", "a.wav\t\n");
  EXPECT_ERROR(read("list.tsv"), "expected recordings with their texts, got none");
  data_.format = "jsonl";
  write_file(folder_ / "list.jsonl", R"({"audio": "a.wav"})");
  EXPECT_ERROR(read("list.jsonl"), "list.jsonl:1: text");
  data_.format = "folders";
  EXPECT_ERROR(read("list.jsonl"), "expected a folder with metadata.csv or metadata.jsonl, got a file");
  EXPECT_ERROR(read(""), "got one without");
  EXPECT_ERROR(read("nowhere"), "got nothing of this name");
  write_file(folder_ / "metadata.csv", "file,text\na.wav,one\n");
  EXPECT_ERROR(read(""), "metadata.csv:1: expected a column file_name in the first row");
  write_file(folder_ / "metadata.csv", "file_name,words\na.wav,one\n");
  EXPECT_ERROR(read(""), "expected a column text in the first row, got none (data.target_key names");
}

}  // namespace
}  // namespace heed
