// What the checks of files, of the tokenizer and of weights find in changed copies of sound fixtures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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
  expect_finding(copy.finding("config keys"), CheckStatus::ok, "every key");
  copy.update("config.json", {{"n_heads_typo", 3}});
  expect_finding(copy.finding("config keys"), CheckStatus::warning, "n_heads_typo");
}

TEST(DoctorFiles, SettingsOfGenerationThatCannotWork) {
  const Copy copy("decoders/gpt2");
  const auto with = [&](const nlohmann::json& settings) {
    copy.write("generation_config.json", settings);
    return copy.finding("generation settings");
  };
  expect_finding(with({{"eos_token_id", 0}}), CheckStatus::ok, "can work");
  expect_finding(with({{"eos_token_id", 0}, {"min_length", 30}, {"max_length", 20}}), CheckStatus::failed,
                 "min_length 30");
  expect_finding(with({{"eos_token_id", 0}, {"suppress_tokens", {0}}}), CheckStatus::failed, "no text ends");
  expect_finding(with({{"eos_token_id", 0}, {"forced_eos_token_id", 5000}}), CheckStatus::failed,
                 "forced_eos_token_id");
  expect_finding(with({{"eos_token_id", 0}, {"top_p", 7}}), CheckStatus::failed, "top_p");
  expect_finding(with({{"eos_token_id", 0}, {"temperature", 0.5}}), CheckStatus::warning, "do_sample");
  expect_finding(with({{"eos_token_id", 5000}}), CheckStatus::warning, "outside the vocabulary");
  expect_finding(with({{"eos_token_id", 0}, {"guidance_scale", 2}}), CheckStatus::warning, "guidance_scale");
}

TEST(DoctorFiles, ChatTemplate) {
  const Copy copy("encoders/bert-mlm");
  const auto with = [&](const std::string& text) {
    copy.update("tokenizer_config.json", {{"chat_template", text}});
    return copy.finding("chat template");
  };
  expect_finding(copy.finding("chat template"), CheckStatus::skipped, "no chat template");
  expect_finding(with("{%- for m in messages %}{{ m['content'] }}{% endfor %}"), CheckStatus::ok,
                 "all tags closed");
  expect_finding(with("{% for m in messages %}{{ m }}"), CheckStatus::failed, "for without endfor");
  expect_finding(with("{% endif %}"), CheckStatus::failed, "endif without its beginning");
  expect_finding(with("{{ bos"), CheckStatus::failed, "is not closed");
  expect_finding(with("<|im_start|>{{ m.content }}"), CheckStatus::warning, "<|im_start|>");
}

TEST(DoctorFiles, TokenizerLargerThanTheEmbedding) {
  const Copy copy("encoders/bert-mlm");
  expect_finding(copy.finding("tokenizer size"), CheckStatus::ok, "700 rows");
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
  expect_finding(copy.finding("tokenizer size"), CheckStatus::warning, "special tokens");
  add("word", false);
  expect_finding(copy.finding("tokenizer size"), CheckStatus::failed, "ids that the model lacks");
}

TEST(DoctorFiles, NumbersThatAreNone) {
  const Copy copy("decoders/gpt2");
  expect_finding(copy.finding("finite weights"), CheckStatus::ok, "no NaN");
  change_tensors(copy, [](const std::string& name, float* data, const Tensor&) {
    if (name != "transformer.h.1.mlp.c_fc.weight") return;
    data[5] = std::numeric_limits<float>::quiet_NaN();
    data[9] = std::numeric_limits<float>::infinity();
  });
  expect_finding(
      copy.finding("finite weights"), CheckStatus::failed,
      "1 NaN and 1 infinite numbers; model.safetensors: transformer.h.1.mlp.c_fc.weight[0, 5] is NaN");
  const Finding outputs = copy.finding("finite outputs");
  expect_finding(outputs, CheckStatus::failed,
                 "of them not finite, from decoder.layers.1.feed_forward.out on");
  EXPECT_THAT(outputs.advice, HasSubstr("transformer.h.1.mlp.c_fc.weight[0, 5] is NaN: correct this weight"));
}

// NaN equals nothing: a comparison would find whatever it looks for.
TEST(DoctorFiles, OutputsThatAreNotFiniteAreNotCompared) {
  const Copy copy("decoders/gpt2");
  change_tensors(copy, [](const std::string& name, float* data, const Tensor&) {
    if (name == "transformer.h.1.mlp.c_fc.weight") data[5] = std::numeric_limits<float>::quiet_NaN();
  });
  const auto model = load_model(copy.path());
  std::vector<std::string> failed;
  for (const CheckResult& result : examine({.model = model.get(), .files = model_files(copy.path())})) {
    if (result.finding.status == CheckStatus::failed) failed.push_back(result.name);
    if (result.name == "causality" || result.name == "residual norms")
      expect_finding(result.finding, CheckStatus::skipped, "outputs are not finite");
  }
  EXPECT_THAT(failed, testing::ElementsAre("finite weights", "finite outputs"));
}

// An infinity in a row of the embedding that no id of a check has: the logits show it.
TEST(DoctorFiles, LogitsThatAreNotFinite) {
  const Copy copy("decoders/gpt2");
  change_tensors(copy, [](const std::string& name, float* data, const Tensor& tensor) {
    if (name == "transformer.wte.weight") data[3 * tensor.size(1)] = std::numeric_limits<float>::infinity();
  });
  expect_finding(copy.finding("finite outputs"), CheckStatus::failed,
                 "decoder: 3072 outputs, 0 of them not finite; logits: 512 outputs, 1 of them not finite");
  expect_finding(copy.finding("beams"), CheckStatus::skipped, "outputs are not finite");
}

TEST(DoctorFiles, NormsOfZeros) {
  const Copy copy("decoders/gpt2");
  expect_finding(copy.finding("norm weights"), CheckStatus::ok, "5 norms, 0 of them with weights of zeros");
  change_tensors(copy, [](const std::string& name, float* data, const Tensor& tensor) {
    if (name == "transformer.ln_f.weight") std::fill_n(data, tensor.numel(), 0.0f);
  });
  expect_finding(copy.finding("norm weights"), CheckStatus::failed,
                 "1 of them with weights of zeros; model.safetensors: transformer.ln_f.weight");
  expect_finding(copy.finding("causality"), CheckStatus::failed,
                 "the last output is the same for other tokens");
  expect_finding(copy.finding("order"), CheckStatus::skipped,
                 "does not follow the tokens that change places");
}

// x times zero has the sign of x: the outputs are equal, if not to the bit.
TEST(DoctorFiles, ZerosOfEitherSignAreTheSameOutput) {
  const Copy copy("decoders/llama");
  change_tensors(copy, [](const std::string& name, float* data, const Tensor& tensor) {
    if (name.find("norm") != std::string::npos) std::fill_n(data, tensor.numel(), 0.0f);
  });
  expect_finding(copy.finding("norm weights"), CheckStatus::ok, "5 of them with weights of zeros");
  expect_finding(copy.finding("causality"), CheckStatus::failed,
                 "the last output is the same for other tokens");
}

// The norms of Gemma multiply by 1 + weight: those of a new model are zeros.
TEST(DoctorFiles, NormsThatAddOneMayBeZeros) {
  const Copy copy("decoders/gemma2");
  change_tensors(copy, [](const std::string& name, float* data, const Tensor& tensor) {
    if (name.find("norm") != std::string::npos) std::fill_n(data, tensor.numel(), 0.0f);
  });
  expect_finding(copy.finding("norm weights"), CheckStatus::ok, "of them with weights of zeros");
}

// With two tokens of window, two layers see the last three tokens only.
TEST(DoctorFiles, ANarrowWindowIsNoMissingPosition) {
  const Copy copy("decoders/mistral");
  copy.update("config.json", {{"sliding_window", 1}});
  expect_finding(copy.finding("order"), CheckStatus::skipped,
                 "does not follow the tokens that change places");
}

TEST(DoctorFiles, FilesOfAModelThatCannotBeLoaded) {
  const Copy copy("decoders/gpt2");
  copy.update("config.json", {{"n_embd", 40}});
  const std::string error = error_of([&] { load_model(copy.path()); });
  const auto check = [&](const char* name) {
    return found({.model = nullptr, .model_error = error, .files = model_files(copy.path())}, name);
  };
  expect_finding(check("loading"), CheckStatus::failed, "transformer.wte.weight");
  expect_finding(check("config keys"), CheckStatus::skipped, "the model cannot be loaded");
  expect_finding(check("causality"), CheckStatus::skipped, "the model cannot be loaded");
  expect_finding(check("finite weights"), CheckStatus::ok, "no NaN");
  expect_finding(check("special ids"), CheckStatus::ok, "all in the vocabulary");
  copy.write("generation_config.json", {{"eos_token_id", 0}, {"top_p", 7}});
  expect_finding(check("generation settings"), CheckStatus::failed, "top_p");
  std::filesystem::remove(copy.path() / "model.safetensors");
  EXPECT_ERROR(load_model(copy.path()), "model.safetensors");
}

// Every id of every file by itself: one that agrees says nothing of the others.
TEST(DoctorFiles, SpecialIdsOfEachFile) {
  const Copy copy("encoders/bert-mlm");  // [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4, then words
  const nlohmann::json vocabulary = copy.json("tokenizer.json")["model"]["vocab"];
  const std::int64_t pad = vocabulary["[PAD]"], cls = vocabulary["[CLS]"], sep = vocabulary["[SEP]"];
  const std::int64_t word = 300;
  const auto with = [&](const nlohmann::json& config, const nlohmann::json& generation) {
    copy.update("config.json", config);
    copy.write("generation_config.json", generation);
    return copy.finding("special ids");
  };
  const nlohmann::json sound = {{"pad_token_id", pad}, {"cls_token_id", cls}, {"sep_token_id", sep}};
  expect_finding(
      with(sound, {{"pad_token_id", pad}, {"forced_bos_token_id", cls}, {"eos_token_id", nullptr}}),
      CheckStatus::ok, "3 of config.json and 1 of generation_config.json agree with the tokenizer");
  for (const char* key : {"eos_token_id", "decoder_start_token_id", "forced_bos_token_id",
                          "forced_eos_token_id", "sep_token_id"}) {
    expect_finding(with(sound, {{"pad_token_id", pad}, {key, word}}), CheckStatus::failed,
                   std::string("generation_config.json: ") + key + " 300 is ");
  }
  expect_finding(with(sound, {{"sep_token_id", {sep, word}}}), CheckStatus::failed,
                 "generation_config.json: sep_token_id 300 is ");
  expect_finding(with(sound, {{"sep_token_id", {sep, cls}}}), CheckStatus::ok, "agree with the tokenizer");
  expect_finding(with(sound, {{"sep_token_id", cls}}), CheckStatus::warning,
                 "generation_config.json: sep_token_id " + std::to_string(cls) +
                     " is [CLS] for the tokenizer, whose own is");
  expect_finding(with({{"decoder_start_token_id", word}}, nlohmann::json::object()), CheckStatus::failed,
                 "config.json: decoder_start_token_id 300 is ");
}

TEST(DoctorFiles, DeadRowsLayersAndIds) {
  const Copy copy("decoders/gpt2");
  expect_finding(copy.finding("weight rows"), CheckStatus::ok, "no row");
  expect_finding(copy.finding("residual norms"), CheckStatus::ok, "after the embedding");
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
  expect_finding(copy.finding("weight rows"), CheckStatus::warning,
                 "and 1 repeated rows, first in transformer.h.0.mlp");
  expect_finding(copy.finding("unused vocabulary"), CheckStatus::warning, "100 rows of zeros");
  expect_finding(copy.finding("weight norms"), CheckStatus::warning, "root mean square of matrices 0 ");
  expect_finding(copy.finding("residual norms"), CheckStatus::warning, "decoder.layers.1 changes nothing");
}

TEST(DoctorFiles, AMatrixMoreThanAHundredTimesTheMedian) {
  const auto with = [](float factor) {
    const Copy copy("decoders/gpt2");
    double median = 0;  // of all matrices' root mean squares
    const std::string changed = "transformer.h.0.mlp.c_fc.weight";
    const auto values = copy.finding("weight norms").values;
    const SafetensorsFile open = SafetensorsFile::open(copy.path() / "model.safetensors");
    std::vector<double> sizes;
    double own = 0;
    for (const auto& [name, size] : values) {
      if (open.get(name).rank() == 2) sizes.push_back(size);
      if (name == changed) own = size;
    }
    std::sort(sizes.begin(), sizes.end());
    median = sizes[sizes.size() / 2];
    change_tensors(copy, [&](const std::string& name, float* data, const Tensor& tensor) {
      if (name != changed) return;
      for (std::int64_t i = 0; i < tensor.numel(); ++i) data[i] *= factor * static_cast<float>(median / own);
    });
    return copy.finding("weight norms");
  };
  expect_finding(with(80), CheckStatus::ok, "(transformer.h.0.mlp.c_fc.weight), median");
  const Finding large = with(130);
  expect_finding(large, CheckStatus::warning, "(transformer.h.0.mlp.c_fc.weight), median");
  EXPECT_THAT(large.advice, HasSubstr("transformer.h.0.mlp.c_fc.weight is far larger than the others"));
}

// Larger queries saturate more rows; above half of them, there is a warning.
TEST(DoctorFiles, MostRowsSaturated) {
  const auto with = [](float factor) {
    const Copy copy("decoders/gpt2");
    change_tensors(copy, [&](const std::string& name, float* data, const Tensor& tensor) {
      if (!name.ends_with("attn.c_attn.weight")) return;
      for (std::int64_t i = 0; i < tensor.size(0); ++i)
        for (std::int64_t j = 0; j < tensor.size(1) / 3; ++j) data[i * tensor.size(1) + j] *= factor;
    });
    return copy.finding("scores");
  };
  expect_finding(with(5), CheckStatus::ok, "43 % of rows saturated");
  const Finding most = with(7);
  expect_finding(most, CheckStatus::warning, "56 % of rows saturated");
  EXPECT_THAT(most.advice, HasSubstr("most queries attend to one key"));
}

TEST(DoctorFiles, LossByPositionIsTheLossOfTheText) {
  const Copy copy("decoders/gpt2");
  const auto model = load_as<DecoderModel>(copy.path());
  const auto tokenizer = load_tokenizer(std::filesystem::path(HEED_FIXTURES) / "encoders/roberta-mlm");
  std::string text;
  for (int i = 0; i < 60; ++i) text += "a river ran past the town, number " + std::to_string(i) + ". ";
  const Finding finding = found(
      {.model = model.get(), .tokenizer = tokenizer.get(), .files = model_files(copy.path()), .text = text},
      "lengths");
  EXPECT_THAT(finding.measurement, HasSubstr("at 49 to 64"));
  constexpr std::int64_t kWindow = 64, kWindows = 8;  // the model's positions, and the most that are read
  const std::vector<std::int64_t> ids = tokenizer->encode(text, false).ids;
  ASSERT_GT(std::ssize(ids), kWindow * kWindows);
  const std::span<const std::int64_t> read(ids.data(), kWindow * kWindows + 1);
  double mean = 0;
  ASSERT_EQ(finding.values.size(),
            8u);  // quarters of the positions; the whole, bits per byte, singles, pairs
  for (std::size_t part = 0; part < 4; ++part) mean += finding.values[part].second / 4;
  EXPECT_NEAR(finding.values[4].second, mean, 1e-6);
  EXPECT_EQ(finding.status, CheckStatus::failed);  // of random weights: worse than guessing
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
  const auto model = load_as<EncoderDecoderModel>(copy.path());
  const auto check = [&](const std::string& from, const std::string& to) {
    return found({.model = model.get(),
                  .tokenizer = tokenizer.get(),
                  .files = model_files(copy.path()),
                  .text = from,
                  .reference = to},
                 "lengths");
  };
  const Finding finding = check(text, reference);
  ASSERT_EQ(finding.values.size(), 8u) << finding.measurement;
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
  EXPECT_THAT(check(text, {}).measurement,
              HasSubstr("no translation of the text (give one with --reference FILE)"));
  EXPECT_THAT(check(text, reference + "one more\n").measurement,
              HasSubstr("expected a translation of each of the 60 lines of the text, got 61"));
}

// T5 has no last position; the tokenizer says what it was trained with.
TEST(DoctorFiles, LossByPositionGoesBeyondTheTrainedLength) {
  const Copy files("encoders/roberta-mlm");
  files.update("tokenizer_config.json", {{"model_max_length", 32}});
  const auto tokenizer = load_tokenizer(files.path());
  const auto model = load_as<EncoderDecoderModel>(std::filesystem::path(HEED_FIXTURES) / "t5");
  std::string text;
  for (int i = 0; i < 40; ++i) text += "a river ran\n";
  const Finding finding =
      found({.model = model.get(), .tokenizer = tokenizer.get(), .text = text, .reference = text}, "lengths");
  EXPECT_THAT(finding.measurement, HasSubstr("at 25 to 32"));
  EXPECT_THAT(finding.measurement, HasSubstr("beyond the trained length, to 38"));
  EXPECT_EQ(finding.values.size(), 9u);
}

TEST(DoctorFiles, LossByPositionSkips) {
  const Copy copy("encoders/bert-mlm");
  expect_finding(copy.finding("lengths"), CheckStatus::skipped, "no text");
  expect_finding(copy.finding("lengths", "some words"), CheckStatus::skipped, "does not continue text");
}

TEST(Doctor, NamesOfChecks) {
  const auto model = load_model(std::filesystem::path(HEED_FIXTURES) / "vit");
  EXPECT_ERROR(examine({.model = model.get()}, {}, {"casualty"}),
               "expected the name of a check, got casualty");
  std::vector<std::string> reported;
  examine({.model = model.get()}, [&](const CheckResult& result) { reported.push_back(result.name); });
  EXPECT_EQ(reported, check_names());
  expect_finding(found({.model = model.get()}, "finite weights"), CheckStatus::skipped, "no files");
  expect_finding(found({.model = model.get()}, "batch"), CheckStatus::ok, "the same bits");
}

}  // namespace
}  // namespace heed
