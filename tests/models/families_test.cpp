// The contract that every family keeps, over the small models of family_fixtures.h: outputs, hidden states,
// attentions, every gradient, losses, training curves, decoding with a cache, files written and read again,
// and what does not fit. What is particular to a kind of model is in the tests of that kind.
#include "models/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "heed/autograd.h"
#include "heed/files/file.h"
#include "heed/models/registry.h"
#include "heed/nn/stack.h"
#include "heed/ops.h"
#include "models/family_fixtures.h"
#include "models/fixture_adamw.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

double largest_of(const Tensor& x) {
  double largest = 0;
  for (const float value : x.to_vector<float>())
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  return largest;
}

class Families : public testing::TestWithParam<FamilyFixture> {
 protected:
  fs::path directory = GetParam().path();
  std::unique_ptr<Model> model = load_model(directory);
  ModelKind kind = GetParam().kind;
  const DecoderModel* decoder = dynamic_cast<const DecoderModel*>(model.get());
  const EncoderModel* encoder = dynamic_cast<const EncoderModel*>(model.get());
  const EncoderDecoderModel* both = dynamic_cast<const EncoderDecoderModel*>(model.get());
  TensorMap inputs = read_tensors(directory / "inputs.safetensors");
  TensorMap expected = read_tensors(directory / "expected.safetensors");
  bool recurrent = GetParam().is_in("recurrent"), variant = GetParam().is_in("variants");
  bool has_experts = expected.contains("router_logits.0");
  Context context;
  TemporaryFolder folder;

  Tensor input(const char* name) const { return inputs.contains(name) ? inputs.at(name) : Tensor(); }
  ModelInput source() const {
    const InputKind kind = model->input().kind;
    return {.ids = input("input_ids"),
            .mask = input("attention_mask"),
            .type_ids = input("token_type_ids"),
            .values = kind == InputKind::tokens ? Tensor() : input(model->input().name)};
  }
  TensorMap forward(const Model& of) {
    const NoGradients guard;
    return of.forward(inputs, {}, context);
  }
  void expect_equal(const TensorMap& actual, const TensorMap& wanted) const {
    EXPECT_EQ(actual.size(), wanted.size());
    for (const auto& [name, tensor] : wanted) {
      ASSERT_TRUE(actual.contains(name)) << name;
      EXPECT_EQ(actual.at(name).to_vector<float>(), tensor.to_vector<float>()) << name;
    }
  }
  // The loss that training minimizes; undefined where that of the fixture is another (with a mask of a
  // decoder, say) or none.
  Tensor training_loss(Context& with) const {
    if (!expected.contains("loss") || variant) return {};
    if (decoder != nullptr) {
      const Tensor& labels = inputs.at("labels");
      const Tensor none = Tensor::full({labels.size(0), 1}, -100, DType::i64);
      return decoder->loss({.ids = inputs.at("input_ids")},
                           concat({slice(labels, 1, 1, labels.size(1)), none}, 1), {}, with);
    }
    if (both != nullptr) return both->loss(source(), inputs.at("labels"), {}, with);
    if (encoder == nullptr || encoder->head() == EncoderHead::none) return {};
    const Tensor labels = inputs.contains("labels")
                              ? inputs.at("labels")
                              : stack({inputs.at("start_positions"), inputs.at("end_positions")}, 1);
    return encoder->loss(source(), labels, {}, with);
  }
  // A bare model has no loss. That of its fixture is the mean of the last hidden state times sin(0, 1, 2,
  // ...).
  void add_sine_loss(TensorMap& outputs) const {
    if (outputs.contains("loss") || !expected.contains("loss")) return;
    const Tensor& hidden = outputs.at("last_hidden_state");
    const Tensor sines = Tensor::zeros(hidden.shape());
    for (std::int64_t i = 0; i < sines.numel(); ++i)
      sines.data<float>()[i] = static_cast<float>(std::sin(static_cast<double>(i)));
    outputs["loss"] = mean(hidden * sines);
  }
  void expect_gradients() const;
};
INSTANTIATE_TEST_SUITE_P(All, Families, testing::ValuesIn(kFamilyFixtures),
                         [](const auto& info) { return as_test_name(info.param.folder); });

// Softmax ignores what all keys share: without rotations, the gradient of a key bias is 0 but for rounding.
bool is_key_bias(const std::string& name) {
  const auto ends = [&](const char* end) { return name.ends_with(end); };
  return ends("k_proj.bias") || ends("key.bias") || ends("k_lin.bias") || ends("attn.k.bias");
}

void Families::expect_gradients() const {
  double largest = 0;
  for (const auto& [name, tensor] : expected)
    if (name.starts_with("grad.")) largest = std::max(largest, largest_of(tensor));
  std::size_t compared = 0;
  for (const Parameter& p : model->parameters()) {
    if (!expected.contains("grad." + p.name)) continue;
    ++compared;
    const Tensor& want = expected.at("grad." + p.name);
    const double own = largest_of(want);
    const bool unused = p.name.ends_with("mask_token") || p.name.ends_with("masked_spec_embed") ||
                        p.name.starts_with("encoder.pooler.");
    if (!p.tensor.grad().defined() && (variant || unused)) {
      // An expert that no token chose; what stands for hidden patches or frames; an image encoder's pooler.
      EXPECT_EQ(own, 0) << p.name;
      continue;
    }
    ASSERT_TRUE(p.tensor.grad().defined()) << p.name;
    const double rounding = 1e-6 * (encoder != nullptr ? std::max(1.0, largest) : std::min(1.0, largest));
    if (decoder == nullptr && is_key_bias(p.name) && own < rounding) {
      EXPECT_LE(largest_of(p.tensor.grad()), rounding) << p.name;
      continue;
    }
    double tolerance = 2e-5;
    // Numbers of the largest gradient's size are rounded by more than a small gradient's 1e-5.
    if (both != nullptr) tolerance = own > 0 ? std::max(1e-5, 1e-8 * largest / own) : 1e-5;
    // Differences of small gradients count against a hundredth of the largest.
    if (encoder != nullptr && own > 0) tolerance *= std::max(own, 0.01 * largest) / own;
    if (variant) tolerance = own > 0 ? 2e-5 + 1e-6 * largest / own : 1e-6 * largest;
    // Moving a query moves all scores of its row by almost the same, which softmax ignores: what is left is a
    // difference of larger numbers.
    if (recurrent && p.name == "decoder.attention.query.weight") tolerance = 1e-4;
    EXPECT_LE(relative_error(p.tensor.grad(), want), tolerance) << p.name;
  }
  EXPECT_EQ(compared, GetParam().gradients);
}

TEST_P(Families, OutputsEqualTheReference) {
  EXPECT_EQ(model->family(), GetParam().family);
  EXPECT_EQ(decoder != nullptr, kind == ModelKind::decoder);
  EXPECT_EQ(encoder != nullptr, kind == ModelKind::encoder || kind == ModelKind::signal);
  EXPECT_EQ(both != nullptr, kind == ModelKind::encoder_decoder);
  EXPECT_EQ(dynamic_cast<const DualEncoderModel*>(model.get()) != nullptr, kind == ModelKind::dual_encoder);
  EXPECT_THAT(model->unknown_settings(), testing::IsEmpty());
  TensorMap outputs = model->forward(inputs, {.hidden_states = true, .attentions = true}, context);
  add_sine_loss(outputs);
  std::size_t compared = 0, gradients = 0;
  for (const auto& [name, tensor] : expected) {
    if (name.starts_with("grad.")) {
      ++gradients;
      continue;
    }
    ASSERT_TRUE(outputs.contains(name)) << name;
    EXPECT_LE(relative_error(outputs.at(name), tensor), 1e-5) << name;
    ++compared;
  }
  EXPECT_EQ(compared, GetParam().outputs);
  EXPECT_EQ(gradients, GetParam().gradients);
  for (const auto& [name, tensor] : outputs) EXPECT_TRUE(!recurrent || expected.contains(name)) << name;
}

TEST_P(Families, APassForTapsComputesNoLogitsOfTokens) {
  const NoGradients guard;
  const TensorMap all = model->forward(inputs, {}, context);
  TensorMap some = model->forward(inputs, {.logits = false}, context);
  const bool of_tokens =
      all.contains("logits") && (both != nullptr || decoder != nullptr ||
                                 (encoder != nullptr && encoder->head() == EncoderHead::masked_lm));
  if (of_tokens) {
    EXPECT_FALSE(some.contains("logits") || some.contains("loss"));
    for (const auto& [name, value] : some) EXPECT_EQ(relative_error(value, all.at(name)), 0) << name;
    Taps taps;
    bool heard = false;
    taps.listen("logits", [&](const std::string&, Tensor&) { heard = true; });
    Context listening{.taps = &taps};
    some = model->forward(inputs, {.logits = false}, listening);
    EXPECT_TRUE(heard);
  }
  expect_equal(some, all);
}

TEST_P(Families, LogitsOfSomeTokensAreThoseOfAll) {
  const NoGradients guard;
  const auto read_out = model->read_out();
  if (!read_out) return;
  const Stack& stack =
      *model->stack_named(both != nullptr || decoder != nullptr ? "decoder" : encoder->stack_name());
  Tensor stream;
  Taps taps;
  taps.listen(stack.name + ".layers." + std::to_string(stack.layers.size() - 1) + ".out",
              [&](const std::string&, Tensor& value) { stream = value.clone(); });
  Context listening{.taps = &taps};
  model->forward(inputs, {}, listening);
  const Tensor ids = Tensor::from<std::int64_t>({5, 0, 3, 5}, {4}), all = read_out->logits(stream);
  EXPECT_LE(relative_error(read_out->logits(stream, ids), gather(all, all.rank() - 1, ids)), 1e-6);
}

TEST_P(Families, EveryGradientEqualsTheReference) {
  TensorMap outputs = model->forward(inputs, {}, context);
  add_sine_loss(outputs);
  ASSERT_EQ(outputs.contains("loss"), GetParam().gradients > 0);
  if (!outputs.contains("loss")) return;
  outputs.at("loss").backward();
  expect_gradients();
}

TEST_P(Families, TheTrainingLossIsThatOfTheForwardPass) {
  context.training =
      decoder != nullptr;  // with the terms that only training has; the fixtures have no dropout
  const Tensor loss = training_loss(context);
  if (!loss.defined()) return;
  EXPECT_NEAR(loss.item(), expected.at("loss").item(), 1e-5 * expected.at("loss").item());
  loss.backward();
  expect_gradients();
}

TEST_P(Families, SavedDirectoryLoadsWithTheSameNumbers) {
  model->save(folder);
  expect_equal(forward(*load_model(folder)), forward(*model));
  json config = read_json(directory / "config.json");
  if (!config.contains("dtype")) config["dtype"] = "float32";  // that of the file beside it
  EXPECT_EQ(read_json(folder / "config.json"), config);
  // Rounded once, the numbers are the same in either form.
  model->save(folder, DType::bf16);
  expect_equal(forward(*load_model(folder, DType::bf16)), forward(*load_model(folder)));
}

TEST_P(Families, WeightsHeldInBf16StayClose) {
  if (has_experts) return;  // rounded weights choose other experts for tokens between two of them
  for (const auto& [name, tensor] : forward(*load_model(directory, DType::bf16))) {
    if (!expected.contains(name)) continue;
    EXPECT_LE(relative_error(tensor, expected.at(name)), 0.1) << name;
  }
}

// A config as published models have it, of earlier versions; and files as these wrote them.
TEST_P(Families, OtherLayoutsGiveTheSameNumbers) {
  const TensorMap want = forward(*model);
  if (fs::exists(directory / "config_hub_style.json")) {
    fs::copy_file(directory / "config_hub_style.json", folder / "config.json");
    fs::copy_file(directory / "model.safetensors", folder / "model.safetensors");
    expect_equal(forward(*load_model(folder)), want);
  }
  if (fs::exists(directory / "hub_layout"))
    expect_equal(forward(*load_model(directory / "hub_layout")), want);
}

// The names and shapes of a new model's tensors in their order, on which its numbers depend.
TEST_P(Families, NewModelsHaveTheirTensorsInOrder) {
  Generator generator(1);
  json config = read_json(directory / "config.json");
  make_model(Config::parse(config.dump(), "config.json"), generator)->save(folder);
  std::uint64_t digest = 14695981039346656037u;  // FNV-1a
  std::string text;
  const SafetensorsFile file = SafetensorsFile::open(folder / "model.safetensors");
  for (const TensorInfo& info : file.tensors()) text += info.name + " " + Shape(info.shape).str() + "\n";
  for (const char c : text) digest = (digest ^ static_cast<unsigned char>(c)) * 1099511628211u;
  EXPECT_EQ(digest, GetParam().tensors) << text;
}

// A decoding of two sequences, or of the sources of an encoder-decoder, beside full passes over the same
// tokens.
class Rows {
 public:
  Rows(const Model& model, ModelInput source, Context& context)
      : model_(model), source_(source), context_(context) {
    if (const auto* decoder = dynamic_cast<const DecoderModel*>(&model)) {
      decoding_ = decoder->decode(2);
    } else {
      decoding_ = dynamic_cast<const EncoderDecoderModel&>(model).decode(source, context);
    }
    for (std::int64_t row = 0; row < decoding_->rows(); ++row) rows_.push_back({row});
  }
  void reorder(const std::vector<std::int64_t>& rows) {
    decoding_->reorder(rows);
    std::vector<Row> taken;
    for (const std::int64_t row : rows) taken.push_back(rows_[static_cast<std::size_t>(row)]);
    rows_ = taken;
  }
  // Feeds tokens to each row, and compares the logits with those of full passes.
  void feed(const std::vector<std::vector<std::int64_t>>& tokens) {
    ASSERT_EQ(tokens.size(), rows_.size());
    std::vector<std::int64_t> flat;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      flat.insert(flat.end(), tokens[i].begin(), tokens[i].end());
      rows_[i].tokens.insert(rows_[i].tokens.end(), tokens[i].begin(), tokens[i].end());
    }
    const auto count = static_cast<std::int64_t>(rows_.size());
    const Tensor got = decoding_->step(Tensor::from(flat, {count, std::ssize(flat) / count}), context_);
    for (std::int64_t i = 0; i < count; ++i) {
      const Row& row = rows_[static_cast<std::size_t>(i)];
      const Tensor all = full(row);
      const Tensor want = slice(all, 1, all.size(1) - 1, all.size(1));
      EXPECT_LE(relative_error(slice(got, 0, i, i + 1), reshape(want, {1, got.size(1)})), 1e-5)
          << "row " << i << " after " << row.tokens.size();
    }
    EXPECT_EQ(decoding_->length(), std::ssize(rows_.front().tokens));
  }
  Decoding& decoding() { return *decoding_; }

 private:
  struct Row {
    std::int64_t source;
    std::vector<std::int64_t> tokens = {};
  };
  Tensor full(const Row& row) {
    const Tensor ids = Tensor::from(row.tokens, {1, std::ssize(row.tokens)});
    if (!source_.ids.defined() && !source_.values.defined())
      return model_.forward({{"input_ids", ids}}, {}, context_).at("logits");
    TensorMap named{{"decoder_input_ids", ids}};
    const auto add = [&](const char* name, const Tensor& of) {
      if (of.defined()) named[name] = slice(of, 0, row.source, row.source + 1).contiguous();
    };
    add("input_ids", source_.ids);
    add("attention_mask", source_.mask);
    add(model_.input().name, source_.values);
    return model_.forward(named, {}, context_).at("logits");
  }

  const Model& model_;
  ModelInput source_;
  Context& context_;
  std::vector<Row> rows_;
  std::unique_ptr<Decoding> decoding_;
};

class DecodingFamilies : public Families {
 protected:
  NoGradients guard;
  Rows rows{*model, decoder != nullptr ? ModelInput() : source(), context};
};
INSTANTIATE_TEST_SUITE_P(All, DecodingFamilies, testing::ValuesIn(family_fixtures([](const FamilyFixture& f) {
                           return f.kind == ModelKind::decoder || f.kind == ModelKind::encoder_decoder;
                         })),
                         [](const auto& info) { return as_test_name(info.param.folder); });

TEST_P(DecodingFamilies, CachedStepsEqualTheFullPass) {
  const Tensor ids = decoder != nullptr                     ? inputs.at("input_ids")
                     : inputs.contains("decoder_input_ids") ? inputs.at("decoder_input_ids")
                                                            : both->decoder_inputs(inputs.at("labels"), -100);
  std::int64_t at = 0;
  for (const std::int64_t size : {1, 3, 1, 1, 2, 1, 4, 100}) {  // several tokens at once must work too
    const std::int64_t end = std::min(at + size, ids.size(1));
    std::vector<std::vector<std::int64_t>> tokens;
    for (std::int64_t row = 0; row < ids.size(0); ++row)
      tokens.push_back(slice(slice(ids, 0, row, row + 1), 1, at, end).contiguous().to_vector<std::int64_t>());
    if (end > at) rows.feed(tokens);
    at = end;
  }
  EXPECT_EQ(at, ids.size(1));
}

TEST_P(DecodingFamilies, ReorderedRowsContinueWhatTheyTookOver) {
  rows.reorder({0, 0, 1, 1});  // before the first step, as the beams of each source
  rows.feed({{4}, {4}, {4}, {4}});
  rows.feed({{5}, {6}, {7}, {8}});
  rows.reorder({1, 0, 3, 3});  // among the beams of each source
  rows.feed({{9}, {9}, {9}, {10}});
  rows.reorder({2, 0});  // across sources, fewer rows
  rows.feed({{11}, {12}});
  rows.reorder({0, 0});
  rows.feed({{13, 14}, {15, 16}});
  rows.reorder({1, 0, 1, 0});  // more rows
  rows.feed({{17}, {18}, {19}, {20}});
  for (const std::int64_t row : {4, -1}) {
    EXPECT_ERROR(rows.decoding().reorder(std::vector<std::int64_t>{row}), std::to_string(row));
  }
}

// Values made zero where they flow on change the result.
TEST_P(Families, ReplacedValuesChangeTheResult) {
  const NoGradients guard;
  const std::string main = expected.contains("logits")         ? "logits"
                           : expected.contains("start_logits") ? "start_logits"
                           : kind == ModelKind::dual_encoder   ? "logits_per_text"
                                                               : "last_hidden_state";
  const auto with = [&](const std::string& tap) {
    Taps taps;
    bool fired = false;
    taps.listen(tap, [&](const std::string&, Tensor& value) {
      value = Tensor::zeros(value.shape());
      fired = true;
    });
    Context listening{.taps = &taps};
    const Tensor result = model->forward(inputs, {}, listening).at(main);
    return fired ? result : Tensor();
  };
  const Tensor plain = model->forward(inputs, {}, context).at(main);
  int changed = 0;
  for (const char* tap : {"encoder.embed", "encoder.layers.0.out", "decoder.embed", "decoder.layers.0.out",
                          "*.cross_attn.weights", "text_encoder.embed", "image_encoder.layers.0.out"}) {
    const Tensor result = with(tap);
    if (!result.defined()) continue;
    ++changed;
    EXPECT_GT(relative_error(result, plain), 1e-3) << tap;
  }
  const bool attends = both != nullptr && both->has_cross_attention();
  EXPECT_EQ(changed, both == nullptr ? 2 : attends ? 5 : 4);
  EXPECT_EQ(both != nullptr && !both->has_self_attention(), recurrent);
}

TEST_P(Families, RefusesInputsThatDoNotFit) {
  const auto refuses = [&](const char* name, const Tensor& value, const std::string& message) {
    TensorMap bad = inputs;
    bad[name] = value;
    EXPECT_ERROR(model->forward(bad, {}, context), testing::AllOf(HasSubstr(name), HasSubstr(message)))
        << name << " " << value.str();
  };
  const auto ids = [](const Shape& shape, std::int64_t id) {
    return Tensor::full(shape, static_cast<double>(id), DType::i64);
  };
  refuses("token_sizes", ids({2, 3}, 1), "inputs this model takes");
  for (const char* name : {"input_ids", "decoder_input_ids"}) {
    if (!inputs.contains(name)) continue;
    const Shape shape = inputs.at(name).shape();
    refuses(name, ids(shape, 1000000000), "expected ids in [0, ");
    refuses(name, ids(shape, -1), "expected ids in [0, ");
    refuses(name, ids({shape[0], 0}, 1), "at least one token");
    refuses(name, Tensor::zeros(shape), "expected integers [batch, length]");
  }
  if (input("input_ids").defined()) {
    const Shape shape = inputs.at("input_ids").shape();
    refuses("attention_mask", ids({shape[0], shape[1] - 1}, 1), "expected shape " + shape.str());
  }
  if (input("decoder_input_ids").defined())
    refuses("decoder_input_ids", ids({7, 3}, 1), "expected a batch of");
  if (both != nullptr) refuses("labels", Tensor::full({2, 3}, 5.5), "expected integers [batch, length]");
  const InputSpec first = model->input();
  if (const char* signal = first.name; first.kind != InputKind::tokens) {
    const Tensor whole = inputs.at(signal);
    const int last = whole.rank() - 1;
    if (first.kind == InputKind::waveform) {
      inputs.erase("attention_mask");
      refuses(signal, slice(whole, 1, 0, 7).contiguous(), "samples, got f32[2, 7]");
      refuses("attention_mask", ids({2, 9}, 1), "expected shape " + whole.shape().str());
    } else {
      refuses(signal, slice(whole, last, 0, whole.size(last) - 1).contiguous(), "rows of");
      if (first.kind != InputKind::patches)
        refuses(signal, slice(whole, 1, 0, whole.size(1) - 1).contiguous(), "rows of");
    }
    if (first.kind == InputKind::patches) {
      const Shape patches{whole.size(0), whole.size(1)};
      refuses("pixel_attention_mask", ids({1, 9}, 1), "expected shape " + patches.str());
      refuses("spatial_shapes", ids({1, 2}, 1), "expected shape");
      refuses("spatial_shapes", ids({whole.size(0), 2}, 0), "got 0 x 0");
      refuses("spatial_shapes", ids({whole.size(0), 2}, 1000000000000), "grids of at most");
    }
    refuses(signal, slice(whole, 0, 0, 0).contiguous(), "at least one");
    refuses(signal, Tensor::zeros(whole.shape(), DType::i64), "floating numbers");
    refuses(signal, Tensor::zeros({2}), "rows of");
  }
  TensorMap rest = inputs;
  rest.erase(first.name);
  EXPECT_ERROR(model->forward(rest, {}, context), std::string("forward: input ") + first.name + " not found");
}

TEST_P(Families, NoTextHasMorePositionsThanTheModel) {
  const auto positions = model->max_positions();
  if (!positions || !inputs.contains("input_ids")) return;
  TensorMap named = inputs;
  for (const char* name : {"labels", "attention_mask", "token_type_ids", "start_positions", "end_positions"})
    if (both == nullptr || std::string(name) == "attention_mask") named.erase(name);
  const std::int64_t batch = named.at("input_ids").size(0);
  const NoGradients guard;
  named["input_ids"] = Tensor::full({batch, *positions}, 3, DType::i64);
  EXPECT_NO_THROW(model->forward(named, {}, context));
  named["input_ids"] = Tensor::full({batch, *positions + 1}, 3, DType::i64);
  const std::string family = model->family();
  if (family == "deberta-v2" || family == "modernbert") {  // where distances count, only users are told
    EXPECT_NO_THROW(model->forward(named, {}, context));
    return;
  }
  EXPECT_ERROR(model->forward(named, {}, context), "position");
}

class EncoderDecoderFamilies : public Families {};
INSTANTIATE_TEST_SUITE_P(All, EncoderDecoderFamilies,
                         testing::ValuesIn(family_fixtures([](const FamilyFixture& f) {
                           return f.kind == ModelKind::encoder_decoder;
                         })),
                         [](const auto& info) { return as_test_name(info.param.folder); });

TEST_P(EncoderDecoderFamilies, EncodesWithoutItsDecoder) {
  for (const bool records : {true, false}) {
    std::optional<NoGradients> guard;
    if (!records) guard.emplace();
    const ModelInput given = source();
    Tensor got = both->encode(given, context), want = expected.at("encoder_last_hidden_state");
    if (given.ids.defined() && given.mask.defined()) {  // what is at padding differs
      const Tensor shown = unsqueeze(given.mask, 2).to(DType::f32);
      got = got * shown, want = want * shown;
    }
    EXPECT_LE(relative_error(got, want), 1e-5);
  }
}

TEST_P(EncoderDecoderFamilies, LabelsGiveTheDecoderItsInputs) {
  if (variant) return;  // their decoder reads other ids
  inputs.erase("decoder_input_ids");
  EXPECT_LE(relative_error(forward(*model).at("logits"), expected.at("logits")), 1e-5);
}

TEST_P(EncoderDecoderFamilies, NothingToSeeIsNotNaN) {
  if (!inputs.contains("attention_mask")) return;
  inputs["attention_mask"] = Tensor::zeros(inputs.at("attention_mask").shape(), DType::i64);
  for (const float value : forward(*model).at("logits").to_vector<float>()) ASSERT_TRUE(std::isfinite(value));
  inputs.erase("labels");
  if (model->input().kind != InputKind::tokens) return;  // of which there must be at least one
  for (auto& [name, tensor] : inputs) tensor = slice(tensor, 0, 0, 0);
  EXPECT_EQ(forward(*model).at("logits").size(0), 0);
}

// Ten steps of AdamW from the weights of a fixture, as PyTorch takes them: its own curve (training.json) and
// that in f64 (train/family_curves.json).
struct Curve {
  json settings;
  std::vector<double> losses;
  double tolerance;  // of losses above `least`, relative
  double least = 0;
};
std::vector<Curve> curves_of(const FamilyFixture& fixture) {
  static const json all = read_json(fs::path(HEED_FIXTURES) / "train" / "family_curves.json");
  std::vector<Curve> curves;
  if (all.at("losses").contains(fixture.folder))
    curves.push_back({all.at("settings"), all.at("losses").at(fixture.folder), 1e-4, 1.0});
  if (fs::exists(fixture.path() / "training.json")) {
    const json own = read_json(fixture.path() / "training.json");
    Curve curve{own.at("settings"), own.at("losses"), fixture.is_in("recurrent") ? 1e-4 : 1e-5};
    if (own.contains("loss_after_last_step")) curve.losses.push_back(own.at("loss_after_last_step"));
    curves.push_back(curve);
  }
  return curves;
}
std::vector<FamilyFixture> fixtures_with_curves() {
  return family_fixtures([](const FamilyFixture& f) { return !curves_of(f).empty(); });
}

class FamilyCurves : public testing::TestWithParam<FamilyFixture> {};
INSTANTIATE_TEST_SUITE_P(All, FamilyCurves, testing::ValuesIn(fixtures_with_curves()),
                         [](const auto& info) { return as_test_name(info.param.folder); });

TEST_P(FamilyCurves, StepsOfAdamWFollowPyTorch) {
  const TensorMap inputs = read_tensors(GetParam().path() / "inputs.safetensors");
  for (const Curve& curve : curves_of(GetParam())) {
    ASSERT_GE(curve.losses.size(), 10u);
    const auto model = load_model(GetParam().path());
    FixtureAdamW optimizer(*model, curve.settings);
    Context context;
    for (std::size_t step = 0; step < curve.losses.size(); ++step) {
      const Tensor loss = model->forward(inputs, {}, context).at("loss");
      const double want = curve.losses[step];
      EXPECT_NEAR(loss.item(), want, curve.tolerance * std::max(curve.least, want)) << "step " << step;
      loss.backward();
      optimizer.step();
    }
  }
}

// Folders that the table lacks, and families without a fixture.
TEST(FamilyTable, HasEveryFixtureAndEveryFamily) {
  std::set<std::string> folders, listed, families;
  for (const std::string parent : {"", "decoders", "encoders", "recurrent", "variants"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(HEED_FIXTURES) / parent)) {
      const fs::path folder = entry.path();
      if (fs::exists(folder / "inputs.safetensors") || fs::exists(folder / "expected.safetensors"))
        folders.insert(fs::relative(folder, HEED_FIXTURES).string());
    }
  }
  for (const FamilyFixture& fixture : kFamilyFixtures) {
    EXPECT_TRUE(listed.insert(fixture.folder).second) << fixture.folder;
    families.insert(fixture.family);
  }
  EXPECT_EQ(folders, listed);
#define HEED_RECORD(name) name##_family(),
  for (const Family& family : {HEED_FAMILIES(HEED_RECORD)}) {
#undef HEED_RECORD
    EXPECT_TRUE(std::any_of(family.model_types.begin(), family.model_types.end(),
                            [&](const std::string& type) { return families.contains(type); }))
        << family.model_types.front();
  }
  const auto count = [&](const char* file) {
    return std::count_if(listed.begin(), listed.end(), [&](const std::string& folder) {
      return fs::exists(fs::path(HEED_FIXTURES) / folder / file);
    });
  };
  EXPECT_EQ(count("config_hub_style.json"), 57);
  EXPECT_EQ(count("hub_layout"), 2);
  EXPECT_EQ(count("training.json"), 20);
  EXPECT_EQ(fixtures_with_curves().size(), 61u);
}

}  // namespace
}  // namespace heed
