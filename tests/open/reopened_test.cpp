// Models whose files change places while the process lives: another file under the same name, and relative
// paths after the process has changed its directory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "heed/files/model_files.h"
#include "heed/models/model.h"
#include "heed/open/loaded_model.h"
#include "heed/text/tokenizer.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
const fs::path kFixtures = HEED_FIXTURES;

// Puts a file in the place of another, as a download or heed itself does.
void replace(const fs::path& file, const fs::path& by) {
  const fs::path beside = file.string() + ".new";
  fs::copy_file(by, beside);
  fs::rename(beside, file);
}

std::vector<float> logits_of(const LoadedModel& model) {
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 2, 3}, {1, 3});
  return model.model().forward({{"input_ids", ids}}).at("logits").contiguous().to_vector<float>();
}

TEST(Reopened, AGgufFileThatIsReplaced) {
  const TemporaryFolder folder;
  const fs::path file = folder / "x.gguf";
  fs::copy_file(kFixtures / "gguf/llama.gguf", file);
  const LoadedModel first = load(file.string());
  const std::vector<float> logits = logits_of(first);
  replace(file, kFixtures / "gguf/gpt2.gguf");
  const LoadedModel second = load(file.string());
  EXPECT_EQ(second.kind(), "a gpt2 decoder");
  EXPECT_EQ(logits_of(second), logits_of(load((kFixtures / "gguf/gpt2.gguf").string())));
  EXPECT_TRUE(second.files().text("config.json", 1 << 20).find("\"gpt2\"") != std::string::npos);
  EXPECT_EQ(first.kind(), "a llama decoder");
  EXPECT_EQ(logits_of(first), logits);
  EXPECT_TRUE(first.files().text("config.json", 1 << 20).find("\"llama\"") != std::string::npos);
}

TEST(Reopened, TheTokenizerOfAGgufFileThatIsReplaced) {
  const TemporaryFolder folder;
  const fs::path file = folder / "x.gguf", one = kFixtures / "gguf/bert.gguf",
                 other = kFixtures / "gguf/roberta-classify.gguf";
  fs::copy_file(one, file);
  const LoadedModel first = load(file.string());
  replace(file, other);
  const LoadedModel second = load(file.string());
  const auto vocabulary = [](const LoadedModel& model) -> std::string {
    if (!model.has_tokenizer()) return error_of([&] { model.tokenizer(); });
    return std::to_string(model.tokenizer().vocab_size()) + model.tokenizer().token(3);
  };
  const LoadedModel first_alone = load(one.string()), second_alone = load(other.string());
  if (first_alone.has_tokenizer()) {
    EXPECT_EQ(vocabulary(first), vocabulary(first_alone));
  }
  if (second_alone.has_tokenizer()) {
    EXPECT_EQ(vocabulary(second), vocabulary(second_alone));
  }
}

TEST(Reopened, ADirectoryThatIsReplaced) {
  const TemporaryFolder folder;
  fs::copy(kFixtures / "encoders/bert-mlm", folder / "model", fs::copy_options::recursive);
  const LoadedModel first = load((folder / "model").string());
  fs::rename(folder / "model", folder / "old");
  fs::copy(kFixtures / "decoders/gpt2", folder / "model", fs::copy_options::recursive);
  EXPECT_EQ(load((folder / "model").string()).kind(), "a gpt2 decoder");
  EXPECT_EQ(first.kind(), "a bert masked language model");
}

TEST(Reopened, ARelativePathStaysTheSameModel) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "elsewhere");
  fs::copy(kFixtures / "encoders/bert-mlm", folder / "model", fs::copy_options::recursive);
  fs::copy(kFixtures / "decoders/gpt2", folder / "elsewhere/model", fs::copy_options::recursive);
  const CurrentFolder here(folder.path());
  const LoadedModel model = open_model("./model");
  const CurrentFolder there(folder / "elsewhere");
  EXPECT_EQ(model.kind(), "a bert masked language model");
  EXPECT_GT(model.tokenizer().vocab_size(), 0);
  EXPECT_EQ(model.directory(), "./model");
  EXPECT_ERROR(model.generate("a"), "./model: a bert masked language model cannot continue text");
  EXPECT_ERROR(model.chat_templates(), "./model: expected a model for chats");
}

}  // namespace
}  // namespace heed
