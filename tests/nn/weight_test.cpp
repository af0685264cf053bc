// Loaded weights and their forms: the numbers, bit by bit, and where they are kept.
#include "heed/nn/weight.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "heed/autograd.h"
#include "heed/nn/linear.h"
#include "heed/ops.h"
#include "heed/threads.h"
#include "reference/blocks.h"
#include "reference/error.h"
#include "reference/gradient_check.h"

namespace heed {
namespace {

using reference::random_tensor;

// As a loaded file gives them: not there before they are needed.
Weight loaded(const Tensor& numbers, DType dtype) { return numbers.to_lazy(dtype); }
std::size_t held() { return memory_statistics().bytes_in_use; }

float max_size(const Tensor& t) {
  float most = 0;
  for (const float value : t.to_vector<float>()) most = std::max(most, std::abs(value));
  return most;
}
float max_difference(const Tensor& a, const Tensor& b) { return max_size(a - b); }

TEST(Weight, GivesTheBitsOfThePlainOne) {
  const Tensor x = random_tensor({5, 40}, 90).to(DType::f32), b = random_tensor({70}, 91).to(DType::f32);
  for (const WeightLayout layout : {WeightLayout::out_in, WeightLayout::in_out}) {
    const Tensor w = random_tensor(layout == WeightLayout::out_in ? Shape{70, 40} : Shape{40, 70}, 92);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      SCOPED_TRACE(name_of(dtype));
      const Tensor plain = w.to(dtype);
      const Linear kept{loaded(w, dtype), b, layout};
      const auto want = linear(x, plain, b, Activation::silu, layout).to_vector<float>();
      EXPECT_EQ(kept.weight.form(), WeightForm::plain);
      EXPECT_EQ(kept(x, Activation::silu).to_vector<float>(), want);
      EXPECT_EQ(kept.weight.form(), WeightForm::packed);
      EXPECT_EQ((Linear{plain, b, layout}(x, Activation::silu).to_vector<float>()), want);
      EXPECT_EQ(kept.weight.tensor().to(DType::f32).to_vector<float>(),
                plain.to(DType::f32).to_vector<float>());
      EXPECT_EQ(kept.weight.form(), WeightForm::packed);
      kept.weight.tensor().raw_data();  // asks for the address
      EXPECT_EQ(kept.weight.form(), WeightForm::plain);
      EXPECT_EQ(kept(x, Activation::silu).to_vector<float>(), want);
    }
  }
}

TEST(Weight, IsHeldOnce) {
  const std::size_t bytes = std::size_t{2} * 512 * 256;
  const Tensor numbers = random_tensor({512, 256}, 93), x = Tensor::zeros({1, 256});
  const Weight w = loaded(numbers, DType::bf16), tied = w;
  const std::size_t before = held();
  for (const Weight& each : {w, w, tied}) Linear{each, {}}(x);
  EXPECT_LT(held() - before, 2 * bytes);
  EXPECT_EQ(tied.form(), WeightForm::packed);
  w.tensor().raw_data();
  Linear{tied, {}}(x);  // sees that the address is out, and drops its own numbers
  EXPECT_LT(held() - before, 2 * bytes);
}

// Numbers in 16 bits, read as f32, are held in 16 bits.
TEST(Weight, IsWidenedWhereItIsUsed) {
  const Tensor x = random_tensor({3, 256}, 89).to(DType::f32);
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{0, 511, 33}, {3});
  for (const DType dtype : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(dtype));
    const Tensor stored = random_tensor({512, 256}, 88).to(dtype), wide = stored.to(DType::f32);
    const std::size_t bytes = std::size_t{2} * 512 * 256, before = held();
    const Weight weight = loaded(stored, DType::f32);
    EXPECT_EQ((Embedding{weight, 2.0})(ids).to_vector<float>(), embedding(wide, ids, 2.0).to_vector<float>());
    EXPECT_EQ((Linear{weight, {}})(x).to_vector<float>(), linear(x, wide).to_vector<float>());
    EXPECT_EQ(weight.form(), WeightForm::packed);
    EXPECT_LT(held() - before, bytes + bytes / 4);
    EXPECT_EQ(weight.dtype(), DType::f32);
    EXPECT_EQ(weight.tensor().to_vector<float>(), wide.to_vector<float>());
  }
}

TEST(Weight, ServesLookupAndProjectionAlike) {
  const Tensor numbers = random_tensor({70, 24}, 94), x = random_tensor({3, 24}, 95).to(DType::f32);
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{0, 69, 33}, {3});
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(dtype));
    const Tensor plain = numbers.to(dtype);
    const Embedding lookup{loaded(numbers, dtype), 3.0};
    const Linear projection{lookup.table, {}};
    const auto want = embedding(plain, ids, 3.0).to_vector<float>();
    EXPECT_EQ(lookup(ids).to_vector<float>(), want);
    EXPECT_EQ(projection(x).to_vector<float>(), linear(x, plain).to_vector<float>());
    EXPECT_EQ(lookup(ids).to_vector<float>(), want);
    EXPECT_EQ(lookup.table.form(), WeightForm::packed);
  }
}

// A weight in blocks of 8 bits is held as such; products and lookups are those of its numbers.
TEST(Weight, InBlocksStaysInBlocks) {
  const std::int64_t out = 96, in = 256;
  const std::size_t bytes = static_cast<std::size_t>(out * in / 32 * 34);
  const Tensor x = random_tensor({3, in}, 98).to(DType::f32);
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{0, 95, 33}, {3});
  for (const WeightLayout layout : {WeightLayout::out_in, WeightLayout::in_out}) {
    BlockMatrix matrix = reference::q8_matrix(out, in);
    matrix.transposed = layout == WeightLayout::in_out;
    const Shape shape = matrix.transposed ? Shape{in, out} : Shape{out, in};
    const Tensor numbers = tensor_of_blocks(matrix, shape).clone();
    const std::size_t before = held();
    const Weight weight(tensor_of_blocks(matrix, shape));
    const Linear part{weight, {}, layout};
    EXPECT_EQ(part(x).to_vector<float>(),
              linear(x, numbers, {}, Activation::none, layout).to_vector<float>());
    EXPECT_EQ(weight.form(), WeightForm::packed);
    if (!matrix.transposed) {
      EXPECT_EQ((Embedding{weight, 2.0})(ids).to_vector<float>(),
                embedding(numbers, ids, 2.0).to_vector<float>());
    }
    EXPECT_LT(held() - before, bytes + bytes / 4);
    EXPECT_EQ(weight.tensor().to_vector<float>(), numbers.to_vector<float>());
    EXPECT_EQ(weight.form(), WeightForm::packed);
  }
}

TEST(Weight, MapsOfOneInputAreThoseOfEachAlone) {
  const std::int64_t in = 256;
  const Tensor b = random_tensor({96}, 111).to(DType::f32);
  const Linear blocks{tensor_of_blocks(reference::q8_matrix(96, in), {96, in}), b},
      rounded{tensor_of_blocks(reference::q8_matrix(33, in), {33, in}), {}},
      also_rounded{tensor_of_blocks(reference::q8_matrix(1000, in), {1000, in}), {}},
      packed{loaded(random_tensor({70, in}, 112), DType::bf16), {}},
      plain{random_tensor({in, 5}, 113).to(DType::f32), {}, WeightLayout::in_out};
  for (const Linear* map : {&rounded, &also_rounded})
    EXPECT_TRUE(map->weight.use_activations(Activations::int8));
  const std::vector<const Linear*> maps = {&blocks, &rounded, &also_rounded, &packed, &plain};
  const auto expect_alone = [&](const Tensor& x) {
    const std::vector<Tensor> all = linear_all(x, maps);
    ASSERT_EQ(all.size(), maps.size());
    for (std::size_t i = 0; i < maps.size(); ++i) {
      EXPECT_EQ(all[i].shape(), (*maps[i])(x).shape()) << i;
      EXPECT_EQ(all[i].to_vector<float>(), (*maps[i])(x).to_vector<float>()) << i;
    }
  };
  const int before = threads();
  for (const int count : {1, 2, 4}) {
    set_threads(count);
    for (const std::int64_t rows : {0, 1, 3, 40}) expect_alone(random_tensor({rows, in}, 110).to(DType::f32));
  }
  set_threads(before);
  int seen = 0;
  rounded.weight.observe([&](const Tensor&) { ++seen; });
  linear_all(Tensor::zeros({2, in}), maps);
  EXPECT_EQ(seen, 1);
  Tensor x = random_tensor({2, in}, 110).to(DType::f32).detach();
  x.set_requires_grad();
  sum(linear_all(x, {&packed, &plain})[1]).backward();
  EXPECT_EQ(x.grad().shape(), x.shape());
}

TEST(Weight, AChainOfMapsIsOneAfterTheOther) {
  const std::int64_t in = 64, between = 256, out = 33;
  const Tensor b = random_tensor({between}, 111).to(DType::f32);
  const auto rounding = [](std::int64_t n, std::int64_t k, const Tensor& bias) {
    Linear map{tensor_of_blocks(reference::q8_matrix(n, k), {n, k}), bias};
    map.weight.use_activations(Activations::int8);
    return map;
  };
  const Linear up = rounding(between, in, b), down = rounding(out, between, {}),
               exact{tensor_of_blocks(reference::q8_matrix(out, between), {out, between}), {}},
               plain{random_tensor({out, between}, 113).to(DType::f32), {}};
  const auto expect_chain = [&](const Tensor& x, const Linear& second) {
    const Tensor want = second(up(x, Activation::gelu)), y = linear_chain(x, up, Activation::gelu, second);
    EXPECT_EQ(y.shape(), want.shape());
    EXPECT_EQ(y.to_vector<float>(), want.to_vector<float>());
  };
  for (const Linear* second : {&down, &exact, &plain}) {
    for (const std::int64_t rows : {0, 1, 3, 40})
      expect_chain(random_tensor({2, rows, in}, 110).to(DType::f32), *second);
  }
  EXPECT_THROW(linear_chain(Tensor::zeros({2, in + 1}), up, Activation::none, down), Error);
  EXPECT_THROW(linear_chain(Tensor::zeros({2, in}), up, Activation::none, rounding(out, in, {})), Error);

  // What lies between is there for those who ask for it.
  Tensor seen;
  down.weight.observe([&](const Tensor& x) { seen = x; });
  expect_chain(random_tensor({3, in}, 110).to(DType::f32), down);
  EXPECT_EQ(seen.shape(), (Shape{3, between}));
  Tensor x = random_tensor({2, in}, 110).to(DType::f32).detach();
  x.set_requires_grad();
  sum(linear_chain(x, up, Activation::gelu, down)).backward();
  EXPECT_EQ(x.grad().shape(), x.shape());
}

// A frozen weight in blocks lets gradients through and stays as it is.
TEST(Weight, InBlocksPassesGradients) {
  const std::int64_t out = 40, in = 64;
  const Tensor targets = Tensor::from(std::vector<std::int64_t>{3, 39, 0}, {3});
  for (const WeightLayout layout : {WeightLayout::out_in, WeightLayout::in_out}) {
    BlockMatrix matrix = reference::q8_matrix(out, in);
    matrix.transposed = layout == WeightLayout::in_out;
    const Shape shape = matrix.transposed ? Shape{in, out} : Shape{out, in};
    const Tensor numbers = tensor_of_blocks(matrix, shape).clone();
    const Weight weight(tensor_of_blocks(matrix, shape));
    for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu}) {
      Tensor x = (random_tensor({3, in}, 99) * 0.01).to(DType::f32).detach(), again = x.clone();
      Tensor b = random_tensor({out}, 100).to(DType::f32).detach(), b_again = b.clone();
      for (Tensor* leaf : {&x, &again, &b, &b_again}) leaf->set_requires_grad();
      const Tensor y = Linear{weight, b, layout}(x, activation);
      const Tensor want = linear(again, numbers, b_again, activation, layout);
      EXPECT_LT(max_difference(y.detach(), want.detach()), 1e-4);
      sum(y * y).backward();
      sum(want * want).backward();
      EXPECT_LT(max_difference(x.grad(), again.grad()), 1e-4 * max_size(again.grad()));
      EXPECT_LT(max_difference(b.grad(), b_again.grad()), 1e-4 * max_size(b_again.grad()));
      EXPECT_TRUE(weight.stays_quantized());
    }
    if (matrix.transposed) continue;
    Tensor x = (random_tensor({3, in}, 101) * 0.01).to(DType::f32).detach(), again = x.clone();
    x.set_requires_grad();
    again.set_requires_grad();
    const Tensor loss = (Linear{weight, {}}).cross_entropy(x, targets);
    const Tensor want = linear_cross_entropy(again, numbers, {}, targets);
    EXPECT_NEAR(loss.item(), want.item(), 1e-5);
    loss.backward();
    want.backward();
    EXPECT_LT(max_difference(x.grad(), again.grad()), 1e-5);
    EXPECT_TRUE(weight.stays_quantized());
    EXPECT_EQ(weight.dequantized().to_vector<float>(), numbers.to_vector<float>());
  }
}

TEST(Weight, IsPlainWhereItsAddressIsKnown) {
  const Tensor x = random_tensor({2, 8}, 96).to(DType::f32);
  const Linear part{loaded(random_tensor({4, 8}, 97), DType::f32), {}};
  const Tensor before = part(x);
  float* numbers = part.weight.tensor().data<float>();  // now somebody may write at any time
  for (int i = 0; i < 32; ++i) numbers[i] *= 2;
  EXPECT_EQ(part(x).to_vector<float>(), (before * 2.0).to_vector<float>());
  EXPECT_EQ(numbers, part.weight.tensor().data<float>());
}

TEST(Weight, ReadingLeavesItsForm) {
  const Tensor numbers = random_tensor({4, 8}, 109).to(DType::f32), x = Tensor::zeros({1, 8});
  const Linear part{loaded(random_tensor({4, 8}, 109), DType::f32), {}};
  part(x);
  const Tensor& w = part.weight.tensor();
  const auto want = numbers.to_vector<float>();
  EXPECT_EQ(w.to_vector<float>(), want);
  EXPECT_EQ(w.clone().to_vector<float>(), want);
  EXPECT_EQ(transpose(w, 0, 1).contiguous().to_vector<float>(), transpose(numbers, 0, 1).to_vector<float>());
  EXPECT_EQ(w.to(DType::f64).to(DType::f32).to_vector<float>(), want);
  EXPECT_EQ(slice(slice(w, 0, 3, 4), 1, 7, 8).item(), want.back());
  EXPECT_EQ(part.weight.form(), WeightForm::packed);
  EXPECT_ERROR(w.to_vector<double>(), "expected f64, got f32[4, 8]");
}

TEST(Weight, GradientsComeAfterInference) {
  Tensor w = random_tensor({4, 8}, 98).to_lazy(DType::f32);
  w.set_requires_grad();
  const Linear part{w, {}};
  const Tensor x = random_tensor({2, 8}, 99).to(DType::f32);
  {
    const NoGradients inference;
    part(x);
    ASSERT_EQ(part.weight.form(), WeightForm::packed);
  }
  sum(part(x)).backward();
  EXPECT_EQ(w.grad().shape(), w.shape());
  EXPECT_EQ(part.weight.form(), WeightForm::plain);
}

TEST(Weight, PartsOfALoadedTensorAreNotPacked) {
  const Tensor all = random_tensor({6, 8}, 100).to_lazy(DType::f32);
  const Tensor x = random_tensor({2, 8}, 101).to(DType::f32);
  const Linear part{slice(all, 0, 2, 5), {}};
  const auto got = part(x).to_vector<float>();
  EXPECT_EQ(part.weight.form(), WeightForm::plain);
  EXPECT_EQ(got, slice(linear(x, all), 1, 2, 5).to_vector<float>());
}

TEST(Weight, MoreAxesAreColumns) {
  const Tensor numbers = random_tensor({6, 2, 4}, 102), x = random_tensor({3, 8}, 103).to(DType::f32);
  const Linear part{loaded(numbers, DType::f32), {}};
  EXPECT_EQ(part(x).to_vector<float>(),
            linear(x, reshape(numbers.to(DType::f32), {6, 8})).to_vector<float>());
  EXPECT_EQ(part.weight.form(), WeightForm::packed);
}

TEST(Weight, ThreadsPackItOnce) {
  const Tensor numbers = random_tensor({300, 200}, 104), x = random_tensor({2, 200}, 105).to(DType::f32);
  const auto want = linear(x, numbers.to(DType::f32)).to_vector<float>();
  const Weight w = loaded(numbers, DType::f32);
  std::vector<std::vector<float>> got(6);
  std::vector<std::thread> threads;
  for (std::vector<float>& y : got) threads.emplace_back([&] { y = Linear{w, {}}(x).to_vector<float>(); });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& y : got) EXPECT_EQ(y, want);
  EXPECT_EQ(w.form(), WeightForm::packed);
}

TEST(Weight, AForkedChildUsesWhatAnotherThreadIsPacking) {
  const Tensor numbers = random_tensor({400, 200}, 109), x = random_tensor({2, 200}, 110).to(DType::f32);
  const auto want = linear(x, numbers.to(DType::f32)).to_vector<float>();
  for (int round = 0; round < 40; ++round) {
    const Weight w = loaded(numbers, DType::f32);
    std::thread other([&] { Linear{w, {}}(x); });
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      _exit(Linear{w, {}}(x).to_vector<float>() == want ? 0 : 1);
    }
    other.join();
    int status = -1;
    waitpid(child, &status, 0);
    ASSERT_EQ(status, 0) << "child " << round;
  }
}

TEST(Weight, LossesTakeTheRowsThatHaveATarget) {
  const Tensor numbers = random_tensor({50, 12}, 109).to(DType::f32);
  Tensor x = random_tensor({2, 4, 12}, 110).to(DType::f32), again = x.clone();
  x.set_requires_grad();
  again.set_requires_grad();
  std::vector<std::int64_t> targets(8, -100);
  targets[2] = 49;
  targets[7] = 3;
  const Tensor labels = Tensor::from(targets, {2, 4});
  const Tensor loss = (Linear{numbers, {}}).cross_entropy(x, labels);
  const Tensor want = cross_entropy(linear(again, numbers), labels);
  EXPECT_NEAR(loss.item(), want.item(), 1e-6);
  loss.backward();
  want.backward();
  EXPECT_LT(max_difference(x.grad(), again.grad()), 1e-6);
  EXPECT_EQ((Linear{numbers, {}}).cross_entropy(x, Tensor::full({2, 4}, -100, DType::i64)).item(), 0);

  const CrossEntropyOptions each{.reduction = Reduction::none};
  x.zero_grad();
  again.zero_grad();
  const Tensor losses = (Linear{numbers, {}}).cross_entropy(x, labels, each);
  const Tensor wanted = cross_entropy(linear(again, numbers), labels, each);
  EXPECT_EQ(losses.shape(), labels.shape());
  EXPECT_LT(max_difference(losses.detach(), wanted.detach()), 1e-6);
  const Tensor weights = random_tensor({2, 4}, 111).to(DType::f32);
  sum(losses * weights).backward();
  sum(wanted * weights).backward();
  EXPECT_LT(max_difference(x.grad(), again.grad()), 1e-6);
  const NoGradients inference;
  EXPECT_LT(max_difference((Linear{numbers, {}}).cross_entropy(x, labels, each), wanted.detach()), 1e-6);
}

TEST(Weight, LossesOfInferenceReadThePackedOne) {
  const Tensor numbers = random_tensor({50, 12}, 106), x = random_tensor({7, 12}, 107).to(DType::f32);
  const Tensor targets = Tensor::from(std::vector<std::int64_t>{3, 49, 0, -100, 7, 7, 1}, {7});
  const Tensor b = random_tensor({50}, 108).to(DType::f32), plain = numbers.to(DType::f32);
  const Linear part{loaded(numbers, DType::f32), b};
  EXPECT_EQ(part.cross_entropy(x, targets).item(), linear_cross_entropy(x, plain, b, targets).item());
  EXPECT_EQ(part.weight.form(), WeightForm::packed);
  EXPECT_NEAR(part.cross_entropy(x, targets).item(), cross_entropy(linear(x, plain, b), targets).item(),
              1e-6);
}

}  // namespace
}  // namespace heed
