// A command does not replace what it reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.h"

namespace heed::cli_test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class OverwrittenInputs : public testing::Test {
 protected:
  OverwrittenInputs() { fs::copy(tiny_model(), folder / "model"); }

  // Runs a command that would replace `file`, and checks that it does not.
  void expect_refused(const Words& words, const std::string& file, const std::string& input = "") {
    const std::string before = slurp(file);
    const Result result = run(words, input);
    EXPECT_EQ(result.status, 2) << testing::PrintToString(words);
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("expected a file that the command does not read, got "), HasSubstr(file)));
    EXPECT_EQ(slurp(file), before);
  }

  const Folder folder;
  const std::string model = folder / "model", weights = model + "/model.safetensors";
};

TEST_F(OverwrittenInputs, AreFilesOfTheModel) {
  const Words forward{"forward", "--model", model, "--text", "a b", "--target", "b a", "--output"};
  const auto to = [&](const std::string& file) {
    Words words = forward;
    words.push_back(file);
    return words;
  };
  expect_refused(to(weights), weights);
  expect_refused({"tokenize", "--model", model, "a b", "-o", weights}, weights);
  expect_refused({"embed", "--model", model, "a b", "--output", model + "/../model/model.safetensors"},
                 weights);
  // By another name of the same file.
  fs::create_symlink(weights, folder / "link.safetensors");
  expect_refused(to(folder / "link.safetensors"), folder / "link.safetensors");
  fs::create_hard_link(weights, folder / "hard.safetensors");
  expect_refused(to(folder / "hard.safetensors"), folder / "hard.safetensors");
  // A new file beside them, and a file that is not read, are written.
  EXPECT_EQ(run(to(model + "/out.safetensors")).status, 0);
  spill(folder / "old.safetensors", "old");
  EXPECT_EQ(run(to(folder / "old.safetensors")).status, 0);
  EXPECT_NE(slurp(folder / "old.safetensors"), "old");
}

TEST_F(OverwrittenInputs, AreFilesThatOptionsName) {
  const std::string in = folder / "in.safetensors";
  ASSERT_EQ(run({"forward", "--model", model, "--text", "a b", "--target", "b a", "--output", in}).status, 0);
  expect_refused({"forward", "--model", model, "--input", in, "--output", in}, in);
  spill(folder / "hypothesis", "a b\n");
  spill(folder / "reference.svg", "a b\n");
  expect_refused(
      {"evaluate", "--hypothesis", folder / "hypothesis", "--source", folder / "hypothesis", "--reference",
       folder / "reference.svg", "--by-length", "5", "--output", folder / "reference.svg"},
      folder / "reference.svg");
}

TEST_F(OverwrittenInputs, IsStdin) {
  // The file that run() gives as stdin is only known while it runs, so the command's own link to it is named.
  expect_error(2, {"tokenize", "--model", model, "-o", "/proc/self/fd/0"}, "which is the input", "a b\n");
}

}  // namespace
}  // namespace heed::cli_test
