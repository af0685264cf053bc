// AdamW against PyTorch's numbers (tests/fixtures/train/adamw.json).
#include "heed/train/adamw.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/error.h"
#include "heed/io/json.h"
#include "reference/error.h"

namespace heed {
namespace {

Tensor tensor_of(const std::vector<double>& values, DType dtype) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())}).to(dtype);
}

// Ten steps with a changing learning rate. One parameter has weight decay, one has none, and one has a
// gradient only in some steps.
TEST(AdamW, TakesTheStepsOfPyTorch) {
  const Config cases = Config::load(HEED_FIXTURES "/train/adamw.json").sub("cases");
  ASSERT_EQ(cases.names().size(), 3u);
  for (const std::string& c : cases.names()) {
    const Config fixture = cases.sub(c);
    const DType dtype = fixture.required_string("dtype") == "f64" ? DType::f64 : DType::f32;
    const double tolerance = dtype == DType::f64 ? 1e-14 : 2e-7;
    const double clip = fixture.required_number("clip");
    std::vector<Parameter> parameters;
    for (const char* name : {"weight", "bias", "unused"}) {
      Tensor t = tensor_of(fixture.sub("start").numbers(name), dtype);
      t.set_requires_grad();
      parameters.push_back({name, t, std::string(name) != "bias"});
    }
    AdamW optimizer(parameters, {.beta1 = 0.9, .beta2 = 0.98, .eps = 1e-6, .weight_decay = 0.1});
    const Config steps = fixture.sub("steps");
    for (const std::string& s : steps.names()) {
      const Config step = steps.sub(s);
      optimizer.zero_grad();
      for (const Parameter& p : parameters) {
        if (step.sub("gradients").has(p.name)) {
          p.tensor.set_grad(tensor_of(step.sub("gradients").numbers(p.name), dtype));
        }
      }
      const double norm = gradient_norm(parameters);
      const double expected_norm = step.required_number("norm");
      EXPECT_NEAR(norm, expected_norm, expected_norm * tolerance) << c << "/" << s;
      optimizer.step(step.required_number("lr"), clip_scale(norm, clip));
      for (const Parameter& p : parameters) {
        const std::vector<double> expected = step.sub("parameters").numbers(p.name);
        const std::vector<double> got = p.tensor.to(DType::f64).to_vector<double>();
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          EXPECT_NEAR(got[i], expected[i], tolerance * (1 + std::abs(expected[i])))
              << c << "/" << s << " " << p.name;
        }
      }
    }
  }
}

TEST(AdamW, GoesOnFromItsState) {
  const auto start = [] {
    Tensor t = Tensor::from(std::vector<float>{1, -2, 3}, {3});
    t.set_requires_grad();
    return std::vector<Parameter>{{"w", t, true}};
  };
  const auto step = [](AdamW& optimizer, const std::vector<Parameter>& parameters, float g) {
    parameters[0].tensor.set_grad(Tensor::from(std::vector<float>{g, 2 * g, -g}, {3}));
    optimizer.step(1e-2);
  };
  const std::vector<Parameter> straight = start();
  const std::vector<Parameter> broken = start();
  AdamW a(straight, {});
  AdamW b(broken, {});
  for (const float g : {0.5f, -1.f}) {
    step(a, straight, g);
    step(b, broken, g);
  }
  AdamW c(broken, {});
  c.load_state(b.state());
  step(a, straight, 3.f);
  step(c, broken, 3.f);
  EXPECT_EQ(straight[0].tensor.to_vector<float>(), broken[0].tensor.to_vector<float>());
  EXPECT_ERROR(c.load_state({}), "not found in the optimizer state");
  TensorMap foreign = b.state();
  foreign["m.other"] = Tensor::zeros({1});
  EXPECT_ERROR(c.load_state(foreign), "expected an optimizer state of this model, got a tensor m.other");
}

// With masters, the f32 numbers are those of f32 weights to the bit, and the weights are these rounded.
TEST(AdamW, UpdatesMastersAndRoundsThem) {
  const auto start = [](const Shape& shape) {
    Tensor t = Tensor::empty(shape);
    for (std::int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = 0.37F * static_cast<float>(i) - 1.001F;
    t.set_requires_grad();
    return t;
  };
  const std::vector<Parameter> wide{{"w", start({5, 7})}, {"b", start({5}), false}},
      narrow{{"w", start({5, 7})}, {"b", start({5}), false}};
  AdamW a(wide, {}), b(narrow, {.bf16_weights = true});
  AdamW part({{"w", start({5, 7})}}, {.bf16_weights = true}, {{10, 20}});
  EXPECT_EQ(a.state_bytes(), 8 * 40);
  EXPECT_EQ(b.state_bytes(), 8 * 40 + 4 * 35);
  EXPECT_EQ(part.state_bytes(), 12 * 10);
  EXPECT_EQ(part.masters().at("w").shape(), Shape{10});
  for (int step = 1; step <= 30; ++step) {
    for (const std::vector<Parameter>* parameters : {&wide, &narrow}) {
      for (const Parameter& p : *parameters) {
        Tensor gradient = Tensor::empty(p.tensor.shape());
        for (std::int64_t i = 0; i < gradient.numel(); ++i)
          gradient.data<float>()[i] = 0.01F * static_cast<float>((i * 31 + step * 17) % 23 - 9);
        p.tensor.set_grad(gradient);
      }
    }
    a.step(1e-4, 0.5);
    b.step(1e-4, 0.5);
    const Tensor& numbers = wide[0].tensor;
    EXPECT_EQ(b.masters().at("w").to_vector<float>(), numbers.to_vector<float>());
    ASSERT_EQ(narrow[0].tensor.dtype(), DType::bf16);
    EXPECT_EQ(narrow[0].tensor.to(DType::f32).to_vector<float>(),
              numbers.detach().to(DType::bf16).to(DType::f32).to_vector<float>());
    EXPECT_EQ(narrow[1].tensor.to_vector<float>(), wide[1].tensor.to_vector<float>());
  }
  EXPECT_FALSE(b.masters().contains("b"));
}

TEST(AdamW, RefusesSettingsOutOfRange) {
  EXPECT_ERROR(AdamW({}, {.beta1 = 1}), "expected betas from 0 to below 1, got 1");
  EXPECT_ERROR(AdamW({}, {.eps = -1}), "expected eps of at least 0, got -1");
  EXPECT_ERROR(AdamW({}, {.weight_decay = -0.1}), "expected a weight decay of at least 0, got -0.1");
  EXPECT_ERROR(AdamW({{"ids", Tensor::zeros({2}, DType::i64), true}}, {}), "AdamW");
}

TEST(ClipScale, LeavesSmallNormsAlone) {
  EXPECT_EQ(clip_scale(0.5, 1), 1);
  EXPECT_EQ(clip_scale(100, 0), 1);
  EXPECT_NEAR(clip_scale(4, 1), 0.25, 1e-6);
}

}  // namespace
}  // namespace heed
