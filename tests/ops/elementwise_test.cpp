// Arithmetic with broadcasting, functions and activations: values against the standard library, gradients
// against central differences.
#include "heed/ops/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/ops/activation.h"
#include "kernels/kernel_case.h"
#include "reference/error.h"
#include "reference/gradient_check.h"
#include "reference/near.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::expect_near;
using reference::random_tensor;

struct Binary {
  const char* name;
  Tensor (*op)(const Tensor&, const Tensor&);
  double (*scalar)(double, double);
};
const Binary kBinaries[] = {{"add", add, [](double a, double b) { return a + b; }},
                            {"sub", sub, [](double a, double b) { return a - b; }},
                            {"mul", mul, [](double a, double b) { return a * b; }},
                            {"div", div, [](double a, double b) { return a / b; }}};

TEST(Elementwise, ArithmeticBroadcasts) {
  const std::pair<Shape, Shape> shapes[] = {{{2, 3}, {2, 3}},    {{2, 3}, {3}}, {{3}, {2, 3}},
                                            {{2, 1, 4}, {3, 1}}, {{}, {2}},     {{0, 3}, {1, 3}},
                                            {{1, 5}, {4, 1}}};
  for (const Binary& binary : kBinaries) {
    for (const auto& [sa, sb] : shapes) {
      SCOPED_TRACE(std::string(binary.name) + sa.str() + sb.str());
      const Tensor a = random_tensor(sa, 1), b = random_tensor(sb, 2, 0.5, 2.0);
      const Tensor y = binary.op(a, b);
      const Shape shape = broadcast_shapes("test", sa, sb);
      ASSERT_EQ(y.shape(), shape);
      const auto av = a.to_vector<double>(), bv = b.to_vector<double>(), yv = y.to_vector<double>();
      for (std::int64_t i = 0; i < y.numel(); ++i) {
        auto at = [&](const Shape& s, const std::vector<double>& v) {
          std::int64_t rest = i, index = 0, step = 1;
          for (int axis = 1; axis <= shape.rank(); ++axis) {
            const std::int64_t place = rest % shape[-axis];
            rest /= shape[-axis];
            if (axis <= s.rank()) {
              index += s[-axis] == 1 ? 0 : place * step;
              step *= s[-axis];
            }
          }
          return v[static_cast<std::size_t>(index)];
        };
        EXPECT_DOUBLE_EQ(yv[static_cast<std::size_t>(i)], binary.scalar(at(sa, av), at(sb, bv)));
      }
      if (y.numel() > 0) check_gradients([&](const auto& in) { return binary.op(in[0], in[1]); }, {a, b});
    }
  }
}

struct Unary {
  const char* name;
  Tensor (*op)(const Tensor&);
  double (*scalar)(double);
  double low, high;
};
const Unary kUnaries[] = {
    {"neg", neg, [](double x) { return -x; }, -2, 2},
    {"abs", abs, [](double x) { return std::abs(x); }, 0.1, 2},
    {"clamp", [](const Tensor& x) { return clamp(x, -0.5, 1.5); },
     [](double x) { return std::min(std::max(x, -0.5), 1.5); }, -3, 3},
    {"exp", exp, [](double x) { return std::exp(x); }, -3, 3},
    {"log", log, [](double x) { return std::log(x); }, 0.1, 5},
    {"sqrt", sqrt, [](double x) { return std::sqrt(x); }, 0.1, 5},
    {"rsqrt", rsqrt, [](double x) { return 1 / std::sqrt(x); }, 0.1, 5},
    {"relu", relu, [](double x) { return std::max(x, 0.0); }, -2, 2},
    {"gelu", gelu, [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }, -4, 4},
    {"gelu_tanh", gelu_tanh,
     [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }, -4,
     4},
    {"silu", silu, [](double x) { return x / (1 + std::exp(-x)); }, -5, 5},
    {"tanh", static_cast<Tensor (*)(const Tensor&)>(tanh), [](double x) { return std::tanh(x); }, -3, 3},
    {"softcap", [](const Tensor& x) { return softcap(x, 1.5); },
     [](double x) { return 1.5 * std::tanh(x / 1.5); }, -5, 5},
    {"sigmoid", sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -5, 5}};

TEST(Elementwise, FunctionsEqualTheStandardLibrary) {
  for (const Unary& unary : kUnaries) {
    SCOPED_TRACE(unary.name);
    const Tensor x = random_tensor({7, 5}, 3, unary.low, unary.high);
    const auto xv = x.to_vector<double>(), yv = unary.op(x).to_vector<double>();
    const auto fv = unary.op(x.to(DType::f32)).to_vector<float>();
    for (std::size_t i = 0; i < xv.size(); ++i) {
      const double want = unary.scalar(xv[i]);
      EXPECT_NEAR(yv[i], want, 1e-13 * (1 + std::abs(want)));
      EXPECT_NEAR(fv[i], want, 2e-6 * (1 + std::abs(want)));
    }
    check_gradients([&](const auto& in) { return unary.op(in[0]); }, {x});
  }
}

TEST(Elementwise, ScalarsAndViews) {
  check_gradients([](const auto& in) { return in[0] * 3.0 + 1.0; }, {random_tensor({4}, 5)});
  EXPECT_EQ((Tensor::full({2}, 3.0) - 1.0).to_vector<float>(), (std::vector<float>{2, 2}));
}

TEST(Elementwise, RefusesMixedTypesAndIntegers) {
  EXPECT_ERROR(add(Tensor::zeros({2}), Tensor::zeros({2}, DType::f64)),
               "add: expected operands of one type, got f32[2] and f64[2]");
  EXPECT_ERROR(add(Tensor::zeros({2}, DType::i64), Tensor::zeros({2}, DType::i64)),
               "add: expected f32 or f64 (cast it first), got i64");
  EXPECT_ERROR(mul(Tensor::zeros({2}), Tensor::zeros({3})),
               "mul: expected shapes that broadcast, got [2] and [3]");
  EXPECT_ERROR(activation_named("prelu"), testing::EndsWith("linear, got \"prelu\""));
  EXPECT_ERROR(clamp(Tensor::zeros({2}), 1.0, -1.0), "clamp: expected a lower bound below the upper, got 1");
  EXPECT_ERROR(softcap(Tensor::zeros({2}), 0.0), "softcap: expected a cap above 0, got 0");
}

// What ACT2FN of transformers 5.12.1 gives, and PyTorch's gradient of its sum, at these x in f64.
TEST(Activations, HaveTheValuesAndSlopesOfPyTorch) {
  const Tensor x = Tensor::from(std::vector<double>{-7, -3, -1.5, -0.25, 0, 0.5, 2, 3, 6, 12.5}, {10});
  struct Case {
    const char* name;
    std::vector<double> values, slopes;
  };
  const Case cases[] = {
      {"relu",
       {0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 2.0, 3.0, 6.0, 12.5},
       {0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0}},
      {"gelu",
       {-8.958667141456544e-12, -0.00404969409489031, -0.10021080190328704, -0.10032341857926907, 0.0,
        0.34573123063700656, 1.9544997361036416, 2.99595030590511, 5.999999994080474, 12.5},
       {-6.266323326691551e-11, -0.01194564720418392, -0.1274691922299796, 0.304626645116364, 0.5,
        0.8674951246561629, 1.085231801078197, 1.011945647204184, 1.0000000354687093, 1.0}},
      {"gelu_new",
       {-2.3314683517128287e-15, -0.0036373920817729943, -0.10042842301976707, -0.100324649298315, 0.0,
        0.34571400982514394, 1.954597694087775, 2.996362607918227, 5.9999999999156035, 12.5},
       {-2.784255819090889e-14, -0.011584166630969651, -0.12771079315143308, 0.30464590484893955, 0.5,
        0.8673699035346424, 1.0860992566236183, 1.0115841666309695, 1.0000000007709977, 1.0}},
      {"silu",
       {-0.006377358360804518, -0.14227761953270035, -0.2736382857095345, -0.10945587477855048, 0.0,
        0.3112296656009273, 1.7615941559557646, 2.8577223804672998, 5.985164261060192, 12.499953417008948},
       {-0.005460497066452141, -0.08810410601516962, -0.041294154299142946, 0.37628997842980233, 0.5,
        0.7399611873026519, 1.0907842487848955, 1.0881041060151693, 1.0123264325915249, 1.00004285617817}},
      {"tanh",
       {-0.9999983369439447, -0.9950547536867305, -0.9051482536448664, -0.24491866240370913, 0.0,
        0.4621171572600098, 0.9640275800758169, 0.9950547536867305, 0.9999877116507956, 0.9999999999722241},
       {3.3261093448688367e-06, 0.009866037165440166, 0.1807066389236486, 0.940014848806378, 1.0,
        0.7864477329659274, 0.07065082485316443, 0.009866037165440166, 2.4576547405302974e-05,
        5.5551785393187607e-11}},
      {"sigmoid",
       {0.0009110511944006454, 0.04742587317756678, 0.18242552380635635, 0.43782349911420193, 0.5,
        0.6224593312018546, 0.8807970779778823, 0.9525741268224334, 0.9975273768433653, 0.9999962733607158},
       {0.0009102211801218265, 0.04517665973091214, 0.14914645207033286, 0.24613408273759835, 0.25,
        0.2350037122015945, 0.10499358540350662, 0.045176659730912, 0.002466509291359931,
        3.726625396322482e-06}},
      {"quick_gelu",
       {-4.687169668280189e-05, -0.01807130970778597, -0.10833780155292341, -0.09880035009980583, 0.0,
        0.35038843660638014, 1.9356586231442083, 2.981928690292214, 5.999779646450213, 12.499999992800623},
       {-7.307913691101042e-05, -0.024548323905652352, -0.09884806462410291, 0.2934995590257331, 0.5,
        0.8792219119654143, 1.0738153543085418, 1.0245483239056525, 1.0003383023764763, 1.0000000116773897}},
      {"gelu_10",
       {-8.958667141456544e-12, -0.00404969409489031, -0.10021080190328704, -0.10032341857926907, 0.0,
        0.34573123063700656, 1.9544997361036416, 2.99595030590511, 5.999999994080474, 10.0},
       {-6.266323326691551e-11, -0.01194564720418392, -0.1274691922299796, 0.304626645116364, 0.5,
        0.8674951246561629, 1.085231801078197, 1.011945647204184, 1.0000000354687093, 0.0}},
      {"relu2",
       {0.0, 0.0, 0.0, 0.0, 0.0, 0.25, 4.0, 9.0, 36.0, 156.25},
       {0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 4.0, 6.0, 12.0, 25.0}},
      {"relu6",
       {0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 2.0, 3.0, 6.0, 6.0},
       {0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0}},
      {"leaky_relu",
       {-0.07, -0.03, -0.015, -0.0025, 0.0, 0.5, 2.0, 3.0, 6.0, 12.5},
       {0.01, 0.01, 0.01, 0.01, 0.01, 1.0, 1.0, 1.0, 1.0, 1.0}},
      {"hardswish",
       {-0.0, -0.0, -0.375, -0.11458333333333333, 0.0, 0.2916666666666667, 1.6666666666666667, 3.0, 6.0,
        12.5},
       {0.0, 0.0, 0.0, 0.4166666666666667, 0.5, 0.6666666666666666, 1.1666666666666665, 1.0, 1.0, 1.0}},
      {"mish",
       {-0.006380263409573668, -0.1456474612756246, -0.29809974216680674, -0.129926963679141, 0.0,
        0.3752452113048951, 1.9439589595339946, 2.9865350049679575, 5.999926634065252, 12.499999999652804},
       {-0.005465886861314787, -0.09339311453232084, -0.06409781589225869, 0.43981560172180506, 0.6,
        0.8864243753577272, 1.0693179342794896, 1.0211069109294435, 1.00013414050621, 1.0000000006666134}},
      {"laplace",
       {0.0, 0.0, 2.55351295663786e-15, 0.00034584313679586476, 0.006094459617935588, 0.23142114841057387,
        0.9999977102450648, 0.9999999999999998, 1.0, 1.0},
       {1.1593434586004107e-162, 4.469898130710365e-38, 7.20946583007067e-14, 0.00447542264062629,
        0.06111382879472588, 1.0801140509582396, 3.8834162676589635e-05, 6.375366174527703e-15,
        5.0745150826378296e-77, 0.0}},
      {"sqrtsoftplus",
       {0.030190502708206845, 0.2204253877704246, 0.4487909067514096, 0.7589067267318452, 0.8325546111576977,
        0.9869533850086876, 1.4583991261115636, 1.7460204327480655, 2.449995037778185, 3.535534432960062},
       {0.015088374036133381, 0.10757806452621814, 0.20324110968162273, 0.28845672576895204,
        0.30028060219661246, 0.3153438352087801, 0.3019739460233686, 0.27278435834888104, 0.203577428007362,
        0.14142080812991645}},
      {"linear",
       {-7.0, -3.0, -1.5, -0.25, 0.0, 0.5, 2.0, 3.0, 6.0, 12.5},
       {1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Tensor leaf = x.clone();
    leaf.set_requires_grad();
    const Tensor y = activate(leaf, activation_named(c.name));
    sum(y).backward();
    const auto values = y.to_vector<double>(), slopes = leaf.grad().to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], c.values[i], 1e-12 * (1 + std::abs(c.values[i]))) << i;
      EXPECT_NEAR(slopes[i], c.slopes[i], 1e-12 * (1 + std::abs(c.slopes[i]))) << i;
    }
  }
}

TEST(Gated, EqualsActivationTimesValue) {
  for (const Activation activation :
       {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::sigmoid,
        Activation::tanh, Activation::none, Activation::quick_gelu, Activation::mish}) {
    SCOPED_TRACE(static_cast<int>(activation));
    const Tensor gate = random_tensor({3, 7}, 31, -6, 6), x = random_tensor({3, 7}, 32);
    const Tensor want = activate(gate, activation) * x;
    on_every_target([&] {
      expect_near(gated(gate, x, activation), want, 1e-14);
      expect_near(gated(gate.to(DType::f32), x.to(DType::f32), activation), want, 1e-5);
      check_gradients([&](const auto& in) { return gated(in[0], in[1], activation); }, {gate, x});
    });
  }
  EXPECT_ERROR(gated(Tensor::zeros({2}), Tensor::zeros({3}), Activation::silu),
               "gated: expected a gate like x, got f32[2] and f32[3]");
}

}  // namespace
}  // namespace heed
