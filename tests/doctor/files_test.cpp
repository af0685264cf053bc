// What the checks of files, of the tokenizer and of weights find in changed copies of sound fixtures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "doctor/copy.h"
#include "heed/autograd.h"
#include "heed/generate/perplexity.h"
#include "heed/io/safetensors.h"
#include "reference/error.h"

namespace heed {
namespace {

using testing::HasSubstr;

void expect(const Finding& finding, CheckStatus status, const std::string& words) {
  EXPECT_EQ(finding.status, status) << finding.figure;
  EXPECT_THAT(finding.figure, HasSubstr(words));
}

// Saves the file with tensors that `change` has changed.
template <class Change>
void change_tensors(const Copy& copy, Change change) {
  std::vector<NamedTensor> tensors;
  {
    const SafetensorsFile open = SafetensorsFile::open(copy.path() / "model.safetensors");
    for (const TensorInfo& info : open.tensors()) tensors.push_back({info.name, open.get(info.name).clone()});
  }
  for (NamedTensor& t : tensors) change(t.name, t.tensor.data<float>(), t.tensor);
  save_safetensors(copy.path() / "model.safetensors", tensors);
}

TEST(DoctorFiles, ConfigKeysThatNothingFollows) {
  const Copy copy("decoders/gpt2");
  expect(copy.finding("config keys"), CheckStatus::ok, "every key");
  copy.update("config.json", {{"n_heads_typo", 3}});
  expect(copy.finding("config keys"), CheckStatus::warning, "n_heads_typo");
}

TEST(DoctorFiles, SettingsOfGenerationThatCannotWork) {
  const Copy copy("decoders/gpt2");
  const auto with = [&](const nlohmann::json& settings) {
    copy.write("generation_config.json", settings);
    return copy.finding("generation settings");
  };
  expect(with({{"eos_token_id", 0}}), CheckStatus::ok, "can work");
  expect(with({{"eos_token_id", 0}, {"min_length", 30}, {"max_length", 20}}), CheckStatus::failed,
         "min_length 30");
  expect(with({{"eos_token_id", 0}, {"suppress_tokens", {0}}}), CheckStatus::failed, "no text ends");
  expect(with({{"eos_token_id", 0}, {"forced_eos_token_id", 5000}}), CheckStatus::failed,
         "forced_eos_token_id");
  expect(with({{"eos_token_id", 0}, {"top_p", 7}}), CheckStatus::failed, "top_p");
  expect(with({{"eos_token_id", 0}, {"temperature", 0.5}}), CheckStatus::warning, "do_sample");
  expect(with({{"eos_token_id", 5000}}), CheckStatus::warning, "outside the vocabulary");
  expect(with({{"eos_token_id", 0}, {"guidance_scale", 2}}), CheckStatus::warning, "guidance_scale");
}

TEST(DoctorFiles, ChatTemplate) {
  const Copy copy("encoders/bert-mlm");
  const auto with = [&](const std::string& text) {
    copy.update("tokenizer_config.json", {{"chat_template", text}});
    return copy.finding("chat template");
  };
  expect(copy.finding("chat template"), CheckStatus::skipped, "no chat template");
  expect(with("{%- for m in messages %}{{ m['content'] }}{% endfor %}"), CheckStatus::ok, "all tags closed");
  expect(with("{% for m in messages %}{{ m }}"), CheckStatus::failed, "for without endfor");
  expect(with("{% endif %}"), CheckStatus::failed, "endif without its beginning");
  expect(with("{{ bos"), CheckStatus::failed, "is not closed");
  expect(with("<|im_start|>{{ m }}"), CheckStatus::warning, "<|im_start|>");
}

TEST(DoctorFiles, TokenizerLargerThanTheEmbedding) {
  const Copy copy("encoders/bert-mlm");
  expect(copy.finding("tokenizer size"), CheckStatus::ok, "700 rows");
  nlohmann::json tokenizer = copy.json("tokenizer.json");
  const auto add = [&](const char* token, bool special) {
    tokenizer["added_tokens"].push_back({{"id", 700 + (special ? 0 : 1)},
                                         {"content", token},
                                         {"single_word", false},
                                         {"lstrip", false},
                                         {"rstrip", false},
                                         {"normalized", false},
                                         {"special", special}});
    copy.write("tokenizer.json", tokenizer);
  };
  add("[NEW]", true);
  expect(copy.finding("tokenizer size"), CheckStatus::warning, "special tokens");
  add("word", false);
  expect(copy.finding("tokenizer size"), CheckStatus::failed, "ids that the model lacks");
}

TEST(DoctorFiles, NumbersThatAreNone) {
  const Copy copy("decoders/gpt2");
  expect(copy.finding("finite weights"), CheckStatus::ok, "no NaN");
  change_tensors(copy, [](const std::string& name, float* data, const Tensor&) {
    if (name != "transformer.h.1.mlp.c_fc.weight") return;
    data[5] = std::numeric_limits<float>::quiet_NaN();
    data[9] = std::numeric_limits<float>::infinity();
  });
  expect(copy.finding("finite weights"), CheckStatus::failed,
         "1 NaN and 1 infinite numbers, first in transformer.h.1.mlp.c_fc.weight");
  expect(copy.finding("finite outputs"), CheckStatus::failed, "not finite");
  expect(copy.finding("residual norms"), CheckStatus::failed, "decoder.layers.1.out is not finite");
}

TEST(DoctorFiles, DeadRowsLayersAndIds) {
  const Copy copy("decoders/gpt2");
  expect(copy.finding("weight rows"), CheckStatus::ok, "no row");
  expect(copy.finding("residual norms"), CheckStatus::ok, "after the embedding");
  change_tensors(copy, [](const std::string& name, float* data, const Tensor& tensor) {
    const std::int64_t columns = tensor.rank() == 2 ? tensor.size(1) : 0;
    if (name == "transformer.h.0.mlp.c_fc.weight") {
      std::fill_n(data, columns, 0.0f);
      std::copy_n(data + 2 * columns, columns, data + 3 * columns);
    }
    if (name == "transformer.wte.weight") std::fill_n(data, 100 * columns, 0.0f);
    if (name.ends_with("c_proj.weight") || name.ends_with("c_proj.bias")) {
      if (name.find("h.1.") != std::string::npos) std::fill_n(data, tensor.numel(), 0.0f);
    }
  });
  expect(copy.finding("weight rows"), CheckStatus::warning,
         "and 1 repeated rows, first in transformer.h.0.mlp");
  expect(copy.finding("unused vocabulary"), CheckStatus::warning, "100 rows of zeros");
  expect(copy.finding("weight norms"), CheckStatus::warning, "root mean square of matrices 0 ");
  expect(copy.finding("residual norms"), CheckStatus::warning, "decoder.layers.1 changes nothing");
}

TEST(DoctorFiles, LossByPositionIsTheLossOfTheText) {
  const Copy copy("decoders/gpt2");
  const auto model = load_decoder(copy.path());
  const auto tokenizer = load_tokenizer(std::filesystem::path(HEED_FIXTURES) / "encoders/roberta-mlm");
  std::string text;
  for (int i = 0; i < 60; ++i) text += "a river ran past the town, number " + std::to_string(i) + ". ";
  const Finding finding = found(
      {.model = *model, .tokenizer = tokenizer.get(), .directory = copy.path(), .text = text}, "lengths");
  EXPECT_THAT(finding.figure, HasSubstr("at 49 to 64"));
  constexpr std::int64_t kWindow = 64, kWindows = 8;  // the model's positions, and the most that are read
  const std::vector<std::int64_t> ids = tokenizer->encode(text, false).ids;
  ASSERT_GT(std::ssize(ids), kWindow * kWindows);
  const std::span<const std::int64_t> read(ids.data(), kWindow * kWindows + 1);
  double mean = 0;
  ASSERT_EQ(finding.values.size(), 4u);  // quarters of the positions
  for (const auto& [positions, loss] : finding.values) mean += loss / 4;
  EXPECT_EQ(finding.status, mean > std::log(512) ? CheckStatus::warning : CheckStatus::ok);
  EXPECT_NEAR(mean, text_loss(*model, read, kWindow, kWindow).loss(), 1e-4);
}

// Twice the same pair in each window: its loss is that of the pair joined with itself.
TEST(DoctorFiles, LossByPositionOfTranslationsIsTheirLoss) {
  const std::string roberta = std::string(HEED_FIXTURES) + "/encoders/roberta-mlm";
  const auto tokenizer = load_tokenizer(roberta);
  const std::string source = "the town", target = "a river ran";
  std::string text, reference;
  for (int i = 0; i < 60; ++i) {
    text += source + "\n";
    reference += target + "\n";
  }
  const Copy copy("marian");
  const auto model = load_encoder_decoder(copy.path());
  const auto check = [&](const std::string& from, const std::string& to) {
    return found({.model = *model,
                  .tokenizer = tokenizer.get(),
                  .directory = copy.path(),
                  .text = from,
                  .reference = to},
                 "lengths");
  };
  const Finding finding = check(text, reference);
  ASSERT_EQ(finding.values.size(), 4u) << finding.figure;
  const std::size_t lines = 48 / tokenizer->encode_target(target).ids.size();  // of the 48 positions
  std::string sources = source, targets = target;
  for (std::size_t i = 1; i < lines; ++i) {
    sources += " " + source;
    targets += " " + target;
  }
  const std::vector<std::int64_t> read = tokenizer->encode(sources).ids,
                                  said = tokenizer->encode_target(targets).ids;
  const auto row = [](const std::vector<std::int64_t>& ids) {
    return Tensor::from(ids, {1, std::ssize(ids)});
  };
  Context context;
  const NoGradients guard;
  const double expected = model->loss({row(read), {}}, row(said), {}, context).item();
  double sum = 0;
  for (std::size_t part = 0; part < 4; ++part)
    sum += finding.values[part].second * (part < 3 ? 12.0 : static_cast<double>(said.size()) - 36);
  EXPECT_NEAR(sum / static_cast<double>(said.size()), expected, 1e-4);
  EXPECT_THAT(check(text, {}).figure,
              HasSubstr("no translation of the text (give one with --reference FILE)"));
  EXPECT_THAT(check(text, reference + "one more\n").figure,
              HasSubstr("expected a translation of each of the 60 lines of the text, got 61"));
}

// T5 has no last position; the tokenizer says what it was trained with.
TEST(DoctorFiles, LossByPositionGoesBeyondTheTrainedLength) {
  const Copy files("encoders/roberta-mlm");
  files.update("tokenizer_config.json", {{"model_max_length", 32}});
  const auto tokenizer = load_tokenizer(files.path());
  const auto model = load_encoder_decoder(std::filesystem::path(HEED_FIXTURES) / "t5");
  std::string text;
  for (int i = 0; i < 40; ++i) text += "a river ran\n";
  const Finding finding =
      found({.model = *model, .tokenizer = tokenizer.get(), .text = text, .reference = text}, "lengths");
  EXPECT_THAT(finding.figure, HasSubstr("at 25 to 32"));
  EXPECT_THAT(finding.figure, HasSubstr("beyond the trained length, to 38"));
  EXPECT_EQ(finding.values.size(), 5u);
}

TEST(DoctorFiles, LossByPositionSkips) {
  const Copy copy("encoders/bert-mlm");
  expect(copy.finding("lengths"), CheckStatus::skipped, "no text");
  expect(copy.finding("lengths", "some words"), CheckStatus::skipped, "does not continue text");
}

TEST(Doctor, NamesOfChecks) {
  const auto model = load_model(std::filesystem::path(HEED_FIXTURES) / "vit");
  EXPECT_ERROR(examine({.model = *model}, {}, {"casualty"}), "expected the name of a check, got casualty");
  std::vector<std::string> reported;
  examine({.model = *model}, [&](const CheckResult& result) { reported.push_back(result.name); });
  EXPECT_EQ(reported, check_names());
  expect(found({.model = *model}, "finite weights"), CheckStatus::skipped, "no files");
  expect(found({.model = *model}, "batch"), CheckStatus::skipped, "config.json");
}

}  // namespace
}  // namespace heed
