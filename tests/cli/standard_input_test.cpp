// An image or a recording on stdin, which `-` names: every command that reads files makes of it what it makes
// of the file. tests/cli/transcribe_test.cpp has heed transcribe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;

const std::string kFixtureRoot = HEED_FIXTURES;
const std::string kImageFile = kFixtureRoot + "/image/pictures/photo.jpg";
const std::string kSoundFile = kFixtureRoot + "/speech/tones.flac";

struct Reader {
  Words command;
  std::string file;
};

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all{
      {{"classify", "--model", kFixtureRoot + "/vit"}, kImageFile},
      {{"embed", "--model", kFixtureRoot + "/vit", "--image"}, kImageFile},
      {{"caption", "--model", kFixtureRoot + "/vit-gpt2", "--max-new-tokens", "8"}, kImageFile},
      {{"attend", "--model", kFixtureRoot + "/vit", "--json"}, kImageFile},
      {{"attend", "--model", kFixtureRoot + "/vit-gpt2", "--max-new-tokens", "3", "--json"}, kImageFile},
      {{"attend", "--model", kFixtureRoot + "/speech", "--json", "--quiet"}, kSoundFile},
      {{"attend", "--model", kFixtureRoot + "/ctc", "--json", "--quiet"}, kSoundFile},
      {{"lens", "--model", kFixtureRoot + "/vit", "--json"}, kImageFile},
      {{"heads", "--model", kFixtureRoot + "/vit", "--json"}, kImageFile},
      {{"attribute", "score", "--model", kFixtureRoot + "/vit", "--head", "1.0", "--json"}, kImageFile},
  };
  return all;
}

Words with_file(const Reader& reader, const std::string& file) {
  Words words = reader.command;
  words.push_back(file);
  return words;
}

TEST(StandardInput, HoldsOneFile) {
  for (const Reader& reader : readers()) {
    std::string wanted = output_of(with_file(reader, reader.file));
    if (const std::size_t title = wanted.find("\"title\": \""); title != std::string::npos) {
      const std::string name = reader.file.substr(reader.file.rfind('/') + 1);
      wanted.replace(wanted.find(name, title), name.size(), "standard input");
    }
    EXPECT_TRUE(output_of(with_file(reader, "-"), slurp(reader.file)) == wanted) << reader.command[0];
  }
}

TEST(StandardInput, IsOneFileAmongOthers) {
  const Words command{"classify", "--model", kFixtureRoot + "/vit"};
  const auto with = [&](Words files, const std::string& input) {
    files.insert(files.begin(), command.begin(), command.end());
    return output_of(files, input);
  };
  const std::string other = kFixtureRoot + "/image/pictures/alpha.png";
  EXPECT_EQ(with({other, "-"}, slurp(kImageFile)), with({other, kImageFile}, ""));
  EXPECT_EQ(with({}, kImageFile + "\n"), with({"-"}, slurp(kImageFile)));  // without any, lines are names
}

TEST(StandardInput, MayBeAPipe) {
  Dialogue classify({"classify", "--model", kFixtureRoot + "/vit", "-"});
  classify.write(slurp(kImageFile));
  EXPECT_EQ(classify.finish(), 0);
  EXPECT_EQ(classify.read_line() + "\n",
            output_of({"classify", "--model", kFixtureRoot + "/vit", kImageFile}));
}

TEST(StandardInput, IsNamedInErrors) {
  for (const Reader& reader : readers()) {
    const std::string& command = reader.command[0];
    for (const std::string& input : {std::string(), std::string("Dear all,")}) {
      const Result result = run(with_file(reader, "-"), input);
      EXPECT_EQ(result.status, 1) << command;
      EXPECT_EQ(lines(result.err).size(), 1u) << result.err;
      EXPECT_THAT(result.err, HasSubstr("standard input: expected ")) << command;
    }
  }
  for (const Words& twice : {Words{"classify", "--model", kFixtureRoot + "/vit", "-", "-"},
                             Words{"transcribe", "--model", kFixtureRoot + "/speech", "-", "/dev/stdin"},
                             Words{"patch", "--model", kFixtureRoot + "/vit", "-", "-"}})
    expect_error(2, twice, "-: expected the standard input once, got it several times");
}

TEST(StandardInput, IsNamedInResults) {
  const Words rows =
      lines(output_of({"embed", "--model", kFixtureRoot + "/vit", "--image", "--similarity", "-", kImageFile},
                      slurp(kImageFile)));
  EXPECT_EQ(rows, (Words{"1.0000\t1.0000", "1.0000\t1.0000"}));
}

}  // namespace
}  // namespace heed::cli_test
