// Captions of image files: those of transformers 5.24 for the same files (captions.json of the fixtures), in
// any batch, streamed, and what becomes of files that cannot be read.
#include "heed/tasks/caption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "heed/image/processor.h"
#include "heed/models/registry.h"
#include "heed/text/tokenizer.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kPictures = HEED_FIXTURES "/image/pictures/";
const std::vector<std::string> kFiles{kPictures + "photo.jpg", kPictures + "alpha.png",
                                      kPictures + "rotated.jpg", kPictures + "wide.png"};

struct Captioner {
  fs::path directory;
  std::unique_ptr<EncoderDecoderModel> model = load_as<EncoderDecoderModel>(directory);
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(directory);
  ImageProcessor processor = load_image_processor(directory);

  explicit Captioner(const std::string& name) : directory(fs::path(HEED_FIXTURES) / name) {}
  std::vector<std::vector<Caption>> operator()(const std::vector<std::string>& files,
                                               const CaptionOptions& options) const {
    return caption_images(*model, *tokenizer, processor, files, options);
  }
  CaptionOptions greedy(std::int64_t length) const {
    CaptionOptions options;
    options.generation = load_generation_options(directory);
    options.generation.max_new_tokens = length;
    return options;
  }
};

std::vector<std::vector<std::int64_t>> ids_of(const std::vector<std::vector<Caption>>& captions) {
  std::vector<std::vector<std::int64_t>> ids;
  for (const auto& of_file : captions) {
    for (const Caption& caption : of_file) ids.push_back(caption.hypothesis.ids);
  }
  return ids;
}

TEST(Captions, AreThoseOfTransformersInAnyBatch) {
  for (const char* name : {"vit-gpt2", "trocr"}) {
    const Captioner caption(name);
    std::map<std::string, std::pair<Json, std::vector<Json>>> runs;  // by options
    for (const Json& run : read_json(caption.directory / "captions.json")) {
      auto& [options, of_files] = runs[run.at("options").dump()];
      options = run.at("options");
      of_files.push_back(run);
    }
    ASSERT_EQ(runs.size(), 2u);
    for (const auto& [key, run] : runs) {
      CaptionOptions options = caption.greedy(run.first.at("max_new_tokens"));
      options.generation.num_beams = run.first.value("num_beams", 1);
      options.generation.num_return_sequences = run.first.value("num_return_sequences", 1);
      ASSERT_EQ(run.second.size(), kFiles.size());
      for (const std::int64_t batch_tokens : {4096, 1}) {
        options.task.batch_tokens = batch_tokens;
        const auto captions = caption(kFiles, options);
        ASSERT_EQ(captions.size(), kFiles.size());
        for (std::size_t i = 0; i < captions.size(); ++i) {
          const Json& want = run.second[i];
          ASSERT_THAT(kFiles[i], testing::EndsWith(want.at("file").get<std::string>()));
          ASSERT_EQ(captions[i].size(), want.at("new_tokens").size());
          for (std::size_t j = 0; j < captions[i].size(); ++j) {
            EXPECT_EQ(captions[i][j].hypothesis.ids, want.at("new_tokens")[j]) << name << " " << want;
            EXPECT_EQ(captions[i][j].text, want.at("texts")[j]) << name << " " << want;
          }
        }
      }
    }
  }
}

TEST(Captions, AreAsLongAsTheModelsPositions) {
  const Captioner caption("trocr");
  CaptionOptions options = caption.greedy(1);
  options.generation.max_new_tokens.reset();
  std::vector<std::string> warnings;
  options.task.on_warning = [&](std::size_t index, const std::string& message) {
    warnings.push_back(std::to_string(index) + " " + message);
  };
  const auto captions = caption({kFiles[0]}, options);
  EXPECT_EQ(captions[0][0].hypothesis.ids.size(), 47u);  // 48 positions, one of the start token
  EXPECT_THAT(warnings, testing::IsEmpty());
  options.generation.max_new_tokens = 100;
  EXPECT_EQ(caption({kFiles[0]}, options)[0][0].hypothesis.ids.size(), 48u);
  EXPECT_THAT(warnings, ElementsAre("0 stopped at the model's last position (48) after 48 of 100 tokens"));
}

TEST(Captions, TheirPartsJoinToTheText) {
  for (const char* name : {"vit-gpt2", "trocr"}) {
    const Captioner caption(name);
    CaptionOptions options = caption.greedy(20);
    std::map<std::size_t, std::string> texts;
    std::size_t calls = 0;
    options.on_text = [&](std::size_t index, std::size_t sequence, const std::string& text) {
      EXPECT_EQ(sequence, 0u);
      texts[index] += text;
      ++calls;
      return true;
    };
    const auto captions = caption(kFiles, options);
    EXPECT_EQ(calls, 4u * 21);
    for (std::size_t i = 0; i < captions.size(); ++i) EXPECT_EQ(texts[i], captions[i][0].text) << i;
    options.on_text = [](std::size_t, std::size_t, const std::string&) { return false; };
    EXPECT_EQ(caption(kFiles, options)[0][0].hypothesis.ids.size(), 1u);
  }
}

TEST(Captions, DoNotDependOnTheOthersWhenSampled) {
  const Captioner caption("vit-gpt2");
  CaptionOptions options = caption.greedy(10);
  options.generation.do_sample = true;
  options.generation.seed = 3;
  const auto together = ids_of(caption(kFiles, options));
  options.task.batch_tokens = 1;
  EXPECT_EQ(ids_of(caption(kFiles, options)), together);
  options.task.first_index = 2;
  EXPECT_EQ(ids_of(caption({kFiles[2]}, options))[0], together[2]);
  options.generation.seed = 4;
  EXPECT_NE(ids_of(caption({kFiles[2]}, options))[0], together[2]);
}

TEST(Captions, CaptureWhatEachTokenAttendsTo) {
  const Captioner caption("vit-gpt2");
  CaptionOptions options = caption.greedy(5);
  options.capture = {"decoder.layers.*.cross_attn.weights"};
  for (const auto& captions : caption({kFiles[0], kFiles[1]}, options)) {
    ASSERT_EQ(captions[0].hypothesis.captured.size(), 2u);
    for (const auto& [name, weights] : captions[0].hypothesis.captured)
      EXPECT_EQ(weights.shape(), (Shape{4, 5, 17})) << name;
  }
}

TEST(Captions, FilesThatCannotBeReadLeaveTheOthers) {
  const Captioner caption("vit-gpt2");
  const TemporaryFolder folder;
  const std::string cut = (folder / "cut.jpg").string();
  spill(cut, slurp(kFiles[0]).substr(0, 300));
  CaptionOptions options = caption.greedy(6);
  const auto alone = ids_of(caption({kFiles[0], kFiles[1]}, options));
  EXPECT_ERROR(caption({kFiles[0], "none.png"}, options), "none.png: not found");
  EXPECT_ERROR(caption({cut}, options), cut + ": expected a whole image, got a truncated one");
  std::vector<std::string> errors;
  options.task.on_error = [&](std::size_t index, const std::string& message) {
    errors.push_back(std::to_string(index) + " " + message);
  };
  const auto captions = caption({kFiles[0], cut, "none.png", kFiles[1]}, options);
  EXPECT_THAT(errors, ElementsAre(HasSubstr("1 " + cut), HasSubstr("2 none.png")));
  EXPECT_TRUE(captions[1].empty() && captions[2].empty());
  EXPECT_EQ(ids_of(captions), alone);
}

TEST(Captions, OfOtherModelsAndOptionsAreErrors) {
  const Captioner caption("vit-gpt2");
  const auto whisper = load_as<EncoderDecoderModel>(fs::path(HEED_FIXTURES) / "whisper");
  EXPECT_ERROR(caption_images(*whisper, *caption.tokenizer, caption.processor, kFiles),
               "caption: expected a model of images, got one of input_features");
  EXPECT_ERROR(caption(kFiles, caption.greedy(0)), "max_new_tokens");
  EXPECT_TRUE(caption({}, caption.greedy(3)).empty());
  std::atomic<bool> stop{true};
  CaptionOptions options = caption.greedy(3);
  options.task.stop = &stop;
  EXPECT_THROW(caption(kFiles, options), Canceled);
}

}  // namespace
}  // namespace heed
