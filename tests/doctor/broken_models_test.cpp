// Models that load and run, but are broken: each is found by a check of its files, or by its loss on a text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "doctor/copy.h"
#include "heed/io/safetensors.h"

namespace heed {
namespace {

using testing::HasSubstr;
const std::filesystem::path kShakespeare = HEED_FIXTURES "/../../models/shakespeare";

TEST(BrokenSettings, GenerationThatCannotWork) {
  const Copy copy("decoders/gpt2");
  const auto with = [&](nlohmann::json settings) {
    settings["eos_token_id"] = 0;
    copy.write("generation_config.json", settings);
    return copy.finding("generation settings");
  };
  expect_finding(with({{"max_length", 1}}), CheckStatus::failed, "max_length 1 leaves no room");
  expect_finding(with({{"min_length", 600}, {"max_length", 700}}), CheckStatus::failed,
                 "min_length 600 is above the model's 64 positions");
  expect_finding(with({{"bad_words_ids", {{0}}}}), CheckStatus::failed, "no text ends");
  expect_finding(with({{"bad_words_ids", {{0, 5}}}}), CheckStatus::ok, "can work");
  expect_finding(with({{"begin_suppress_tokens", {5000}}}), CheckStatus::warning,
                 "begin_suppress_tokens 5000 is outside the vocabulary");
}

TEST(BrokenSettings, ConfigValues) {
  const Copy copy("encoders/bert-classify");
  expect_finding(copy.finding("config values"), CheckStatus::ok, "as in other models");
  const auto config = copy.json("config.json");
  const auto with = [&](const nlohmann::json& members) {
    copy.write("config.json", config);
    copy.update("config.json", members);
    return copy.finding("config values");
  };
  expect_finding(with({{"dtype", "float33"}}), CheckStatus::warning, "dtype float33 is no type of numbers");
  expect_finding(with({{"torch_dtype", "torch.bfloat16"}}), CheckStatus::ok, "as in");
  expect_finding(with({{"layer_norm_eps", 1.0}}), CheckStatus::warning, "layer_norm_eps 1 is large");
  auto names = nlohmann::json::object(), ids = nlohmann::json::object();
  const auto labels = config.at("id2label");
  for (const auto& [id, name] : labels.items()) {
    names[id] = name;
    ids[name.get<std::string>()] = std::stoi(id);
  }
  expect_finding(with({{"label2id", ids}}), CheckStatus::ok, "as in");
  ids[names["0"].get<std::string>()] = 1;
  expect_finding(with({{"label2id", ids}}), CheckStatus::warning, "in id2label and 1 in label2id");
  ids.erase(names["0"].get<std::string>());
  expect_finding(with({{"label2id", ids}}), CheckStatus::warning, "of id2label is not in label2id");
}

TEST(BrokenSettings, ChatTemplates) {
  const Copy copy("encoders/bert-mlm");
  const auto with = [&](const std::string& text) {
    copy.update("tokenizer_config.json", {{"chat_template", text}});
    return copy.finding("chat template");
  };
  expect_finding(with("{% for m in messages %}{{ shout(m['content']) }}{% endfor %}"), CheckStatus::failed,
                 "calls what no program gives it: shout");
  expect_finding(
      with("{% macro shout(x) %}{{ x }}{% endmacro %}{% for m in messages %}{{ shout(m.content) }}{% "
           "endfor %}"),
      CheckStatus::ok, "all tags closed");
  expect_finding(with("{% for m in messages %}{{ m['role'] }}{% endfor %}"), CheckStatus::warning,
                 "never reads the content of messages");
  expect_finding(
      with("{# {{ odd( #}{%- if not (messages[0].role == 'system(') %}{{ raise_exception('No (system)') "
           "}}{% endif %}"
           "{{ messages[0]['content'] | replace('a', 'b') | default(x.trim()) }}"),
      CheckStatus::ok, "all tags closed");
}

// A model of the characters of plays, and a text of that kind.
constexpr const char* kPlay =
    "ROMEO:\nBut, soft! what light through yonder window breaks?\nIt is the east, and Juliet is the sun.\n"
    "Arise, fair sun, and kill the envious moon,\nWho is already sick and pale with grief,\n"
    "That thou her maid art far more fair than she:\nBe not her maid, since she is envious;\n"
    "Her vestal livery is but sick and green\nAnd none but fools do wear it; cast it off.\n"
    "It is my lady, O, it is my love!\nO, that she knew she were!\n"
    "She speaks yet she says nothing: what of that?\nHer eye discourses; I will answer it.\n\n"
    "JULIET:\nO Romeo, Romeo! wherefore art thou Romeo?\nDeny thy father and refuse thy name;\n"
    "Or, if thou wilt not, be but sworn my love,\nAnd I'll no longer be a Capulet.\n";

struct Shakespeare {
  Shakespeare() {
    for (const auto& entry : std::filesystem::directory_iterator(kShakespeare))
      if (entry.is_regular_file()) std::filesystem::copy_file(entry.path(), folder / entry.path().filename());
  }
  template <class Change>
  void change(Change change) const {
    std::vector<NamedTensor> tensors;
    {
      const SafetensorsFile file = SafetensorsFile::open(folder / "model.safetensors");
      for (const TensorInfo& info : file.tensors())
        tensors.push_back({info.name, file.get(info.name).to(DType::f32).clone()});
    }
    change(tensors);
    save_safetensors(folder / "model.safetensors", tensors);
  }
  Finding lengths(std::optional<double> expected = {}) const {
    const auto model = load_model(folder);
    const auto tokenizer = load_tokenizer(folder);
    return found({.model = model.get(),
                  .tokenizer = tokenizer.get(),
                  .files = model_files(folder),
                  .text = kPlay,
                  .expected_loss = expected},
                 "lengths");
  }
  TemporaryFolder folder;
};

double value_of(const Finding& finding, const std::string& name) {
  for (const auto& [key, value] : finding.values) {
    if (key == name) return value;
  }
  ADD_FAILURE() << "no " << name;
  return 0;
}

double sound_loss() {
  static const double loss = value_of(Shakespeare().lengths(), "loss");
  return loss;
}

TEST(BrokenModel, TheSoundOneIsNotReported) {
  const Finding finding = Shakespeare().lengths();
  expect_finding(finding, CheckStatus::ok, "perplexity");
  EXPECT_LT(value_of(finding, "loss"), value_of(finding, "pairs"));
  EXPECT_NEAR(value_of(finding, "bits_per_byte"), value_of(finding, "loss") / std::log(2.0),
              0.02);  // characters
  expect_finding(Shakespeare().lengths(sound_loss() * 1.01), CheckStatus::ok, "perplexity");
}

// A text that fits in one window: every program reads the same tokens after the same ones, so that its loss
// is known to half of its last decimal and to what 16 bits lose.
TEST(BrokenModel, ALossOfOneWindowIsHeldClosely) {
  const Shakespeare copy;
  const std::string text = std::string(kPlay).substr(0, 240);
  const auto lengths = [&](std::optional<double> expected) {
    const auto model = load_model(copy.folder);
    const auto tokenizer = load_tokenizer(copy.folder);
    return found({.model = model.get(),
                  .tokenizer = tokenizer.get(),
                  .files = model_files(copy.folder),
                  .text = text,
                  .expected_loss = expected},
                 "lengths");
  };
  const double loss = value_of(lengths({}), "loss");
  const double most = value_of(lengths(loss), "tolerance");
  EXPECT_NEAR(most, 0.005 + 3 * 0.05 / std::sqrt(239.0), 1e-9);  // weights of bf16
  expect_finding(lengths(loss + 0.9 * most), CheckStatus::ok, "perplexity");
  expect_finding(lengths(loss / 1.038), CheckStatus::failed, "expected a loss of");
  expect_finding(lengths(loss + 1.1 * most), CheckStatus::warning, "expected a loss of");
}

using Tensors = std::vector<NamedTensor>;
NamedTensor& tensor_named(Tensors& tensors, const std::string& name) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const NamedTensor& t) { return t.name == name; });
  EXPECT_NE(found, tensors.end()) << name;
  return *found;
}

void swap_layers(Tensors& tensors) {
  for (NamedTensor& tensor : tensors) {
    for (const auto& [from, to] : {std::pair{".h.0.", ".h.*."}, {".h.2.", ".h.0."}, {".h.*.", ".h.2."}}) {
      const std::size_t at = tensor.name.find(from);
      if (at != std::string::npos) tensor.name.replace(at, std::strlen(from), to);
    }
  }
}

// The columns of queries and of keys, of a fused map [D, 3 D].
void swap_queries_and_keys(Tensors& tensors) {
  for (NamedTensor& tensor : tensors) {
    if (!tensor.name.ends_with("c_attn.weight") && !tensor.name.ends_with("c_attn.bias")) continue;
    const std::int64_t columns = tensor.tensor.size(-1), width = columns / 3,
                       rows = tensor.tensor.numel() / columns;
    float* data = tensor.tensor.data<float>();
    for (std::int64_t r = 0; r < rows; ++r)
      std::swap_ranges(data + r * columns, data + r * columns + width, data + r * columns + width);
  }
}

void transpose_outputs(Tensors& tensors) {
  for (NamedTensor& tensor : tensors) {
    if (!tensor.name.ends_with("attn.c_proj.weight")) continue;
    const std::int64_t width = tensor.tensor.size(0);
    float* data = tensor.tensor.data<float>();
    for (std::int64_t i = 0; i < width; ++i) {
      for (std::int64_t j = 0; j < i; ++j) std::swap(data[i * width + j], data[j * width + i]);
    }
  }
}

void add_noise(Tensors& tensors) {
  std::mt19937 random(5);
  for (NamedTensor& tensor : tensors) {
    if (tensor.tensor.rank() != 2) continue;
    const std::int64_t count = tensor.tensor.numel();
    float* data = tensor.tensor.data<float>();
    double squares = 0;
    for (std::int64_t i = 0; i < count; ++i)
      squares += static_cast<double>(data[i]) * static_cast<double>(data[i]);
    std::normal_distribution<float> normal(
        0, static_cast<float>(0.5 * std::sqrt(squares / static_cast<double>(count))));
    for (std::int64_t i = 0; i < count; ++i) data[i] += normal(random);
  }
}

// The bytes of bf16, taken for those of f16.
void mislabel_bf16(Tensors& tensors) {
  for (NamedTensor& tensor : tensors) {
    const Tensor numbers = tensor.tensor.to(DType::bf16).contiguous();
    const Tensor wrong = Tensor::empty(numbers.shape(), DType::f16);
    std::memcpy(wrong.raw_data(), numbers.raw_data(), static_cast<std::size_t>(numbers.numel()) * 2);
    tensor.tensor = wrong;
  }
}

// Rows of the vocabulary one further down.
void roll_embedding(Tensors& tensors) {
  const NamedTensor& table = tensor_named(tensors, "transformer.wte.weight");
  float* data = table.tensor.data<float>();
  std::rotate(data, data + table.tensor.size(1), data + table.tensor.numel());
}

struct BrokenWeights {
  const char* name;
  void (*change)(Tensors& tensors);
  CheckStatus by_text;  // without the expected loss
};
class BrokenModel : public testing::TestWithParam<BrokenWeights> {};
INSTANTIATE_TEST_SUITE_P(
    Weights, BrokenModel,
    testing::Values(BrokenWeights{"LayersSwapped", swap_layers, CheckStatus::failed},
                    BrokenWeights{"QueriesAndKeysSwapped", swap_queries_and_keys, CheckStatus::warning},
                    BrokenWeights{"OutputsTransposed", transpose_outputs, CheckStatus::ok},
                    BrokenWeights{"Noise", add_noise, CheckStatus::ok},
                    BrokenWeights{"Bf16LabelledF16", mislabel_bf16, CheckStatus::failed},
                    BrokenWeights{"EmbeddingRolled", roll_embedding, CheckStatus::failed}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(BrokenModel, LosesMoreThanItShould) {
  const Shakespeare copy;
  copy.change(GetParam().change);
  const Finding finding = copy.lengths();
  EXPECT_EQ(finding.status, GetParam().by_text) << finding.measurement;
  EXPECT_THAT(finding.advice, testing::Not(HasSubstr("keep texts within")));
  expect_finding(copy.lengths(sound_loss()), CheckStatus::failed, "expected a loss of");
}

TEST(BrokenModel, SettingsThatLoseMoreThanTheyShould) {
  const Shakespeare copy;
  const nlohmann::json config = read_json(copy.folder / "config.json");
  const auto with = [&](const nlohmann::json& members) {
    nlohmann::json changed = config;
    changed.update(members);
    spill(copy.folder / "config.json", changed.dump());
    return copy.lengths(sound_loss());
  };
  expect_finding(with(nlohmann::json::object()), CheckStatus::ok, "perplexity");
  expect_finding(with({{"layer_norm_epsilon", 1.0}}), CheckStatus::failed, "expected a loss of");
  expect_finding(with({{"activation_function", "relu"}}), CheckStatus::failed, "expected a loss of");
  expect_finding(with({{"n_head", config.at("n_head").get<int>() / 2}}), CheckStatus::failed,
                 "expected a loss of");
}

}  // namespace
}  // namespace heed
