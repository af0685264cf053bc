// Positions: the literature's table, order blindness without them, limits, and ALiBi's slopes.
#include "heed/nn/positions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "nn/random_parts.h"

namespace heed {
namespace {

using reference::random_encoder;
using reference::random_tensor;
using reference::run;

TEST(Sinusoidal, TheSlowestWaveIsOneInTenThousand) {
  const auto table = sinusoidal_table_to_10000(5, 2, 7).to_vector<float>();
  ASSERT_EQ(table.size(), 21U);
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(table[i], 0);
  for (std::size_t row = 1; row < 3; ++row) {
    const double position = 4.0 + static_cast<double>(row), waves[] = {1, 0.01, 0.0001};
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(table[row * 7 + i], std::sin(position * waves[i]), 1e-6);
      EXPECT_NEAR(table[row * 7 + 3 + i], std::cos(position * waves[i]), 1e-6);
    }
    EXPECT_EQ(table[row * 7 + 6], 0);
  }
}

TEST(Positions, SinusoidTableOfTheLiterature) {
  // d = 4, positions 0..2: sin and cos of p, then of p / 100.
  const auto table = sinusoidal_table(3, 4, SinusoidLayout::interleaved).to_vector<float>();
  const float want[] = {0,         1,       0,        1,         .841471f,  .540302f,
                        .0099998f, .99995f, .909297f, -.416147f, .0199987f, .9998f};
  for (std::size_t i = 0; i < 12; ++i) EXPECT_NEAR(table[i], want[i], 1e-6) << i;
  const auto halves = sinusoidal_table(3, 4, SinusoidLayout::halves).to_vector<float>();
  for (std::size_t p = 0; p < 3; ++p) {
    EXPECT_EQ(halves[4 * p], table[4 * p]);
    EXPECT_EQ(halves[4 * p + 1], table[4 * p + 2]);
    EXPECT_EQ(halves[4 * p + 2], table[4 * p + 1]);
    EXPECT_EQ(halves[4 * p + 3], table[4 * p + 3]);
  }
}

// "dog bites man" and "man bites dog" as rows 0 1 2 and 2 1 0 of one table of word vectors.
struct TwoSentences {
  Tensor dog_bites_man = random_tensor({1, 3, 8}, 5);
  Tensor man_bites_dog = gather(dog_bites_man, 1, Tensor::from(std::vector<std::int64_t>{2, 1, 0}, {3}));
};

double largest_difference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - y[i]));
  return largest;
}

Tensor reversed(const Tensor& x) {
  return gather(x, 1, Tensor::from(std::vector<std::int64_t>{2, 1, 0}, {3}));
}

TEST(Positions, WithoutThemTheEncoderIsBlindToOrder) {
  const TwoSentences s;
  const Stack encoder = random_encoder(8, 2, post_norm);
  const Tensor a = run(encoder, s.dog_bites_man), b = run(encoder, s.man_bites_dog);
  EXPECT_LT(largest_difference(a, reversed(b)), 1e-12);
}

TEST(Positions, WithThemItIsNot) {
  const TwoSentences s;
  const Stack encoder = random_encoder(8, 2, post_norm);
  const AdditivePositions positions(sinusoidal_table(3, 8, SinusoidLayout::interleaved));
  const Tensor a = run(encoder, positions.embed(s.dog_bites_man, 0));
  const Tensor b = run(encoder, positions.embed(s.man_bites_dog, 0));
  EXPECT_GT(largest_difference(a, reversed(b)), 0.1);
}

TEST(Positions, AlibiTellsOrderApartInACausalEncoder) {
  const TwoSentences s;
  const Stack encoder = random_encoder(8, 1, pre_norm);
  AttentionOptions options;
  const Tensor heads = Tensor::zeros({1, 2, 3, 4}, DType::f64);
  AlibiPositions(alibi_slopes(2)).add_to(options, heads, heads);
  options.causal = true;
  EXPECT_GT(largest_difference(run(encoder, s.dog_bites_man, options),
                               reversed(run(encoder, s.man_bites_dog, options))),
            1e-3);
}

TEST(Positions, LearnedTablesSkipTheirOffsetAndLearn) {
  Tensor table = random_tensor({5, 2}, 6);
  table.set_requires_grad();
  const AdditivePositions positions(table, 2);
  const Tensor x = Tensor::zeros({1, 2, 2}, DType::f64);
  const auto y = positions.embed(x, 1);
  EXPECT_EQ(y.to_vector<double>(), slice(table.detach(), 0, 3, 5).to_vector<double>());
  sum(y).backward();
  EXPECT_EQ(table.grad().to_vector<double>(), (std::vector<double>{0, 0, 0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_THROW(positions.embed(x, 2), Error);  // five rows, two skipped: three places
}

TEST(Positions, AlibiSlopesOfThePaper) {
  const auto eight = alibi_slopes(8);
  for (std::size_t h = 0; h < 8; ++h) EXPECT_DOUBLE_EQ(eight[h], std::pow(0.5, static_cast<double>(h + 1)));
  // 12 heads: those of 8, then every other one of 16 (as the paper's authors compute it).
  const auto twelve = alibi_slopes(12);
  EXPECT_DOUBLE_EQ(twelve[7], std::pow(0.5, 8.0));
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_DOUBLE_EQ(twelve[8 + i], std::exp2(-0.5 * static_cast<double>(2 * i + 1)));
  EXPECT_THROW(alibi_slopes(0), Error);
}

const nlohmann::json& fixture() {
  static const auto loaded = nlohmann::json::parse(std::ifstream(HEED_FIXTURES "/positions/positions.json"));
  return loaded;
}

TEST(Positions, AlibiSlopesOfBloomAndMpt) {
  for (const auto& c : fixture().at("alibi")) {
    const std::int64_t heads = c.at("heads");
    const auto eight = alibi_slopes(heads), six = alibi_slopes(heads, 6);
    for (std::size_t h = 0; h < eight.size(); ++h) {
      EXPECT_NEAR(eight[h] / c.at("slopes")[h].get<double>(), 1, 2e-6) << heads << " heads, head " << h;
      EXPECT_NEAR(eight[h] / c.at("mpt")[h].get<double>(), 1, 2e-6) << heads << " heads, head " << h;
      EXPECT_NEAR(six[h] / c.at("six")[h].get<double>(), 1, 2e-6) << heads << " heads, head " << h;
    }
    EXPECT_EQ(eight.size(), c.at("slopes").size());
  }
}

TEST(Positions, BucketsOfT5) {
  for (const auto& c : fixture().at("buckets")) {
    const RelativeBuckets buckets{c.at("buckets"), c.at("max_distance"), c.at("bidirectional")};
    std::int64_t offset = c.at("first");
    for (const std::int64_t want : c.at("bucket")) {
      EXPECT_EQ(buckets.of(offset), want) << offset << " of " << buckets.count << " buckets";
      ++offset;
    }
  }
}

TEST(Positions, RelativeBiasIsAddedToTheScoresAndLearns) {
  const RelativeBuckets buckets{8, 6, true};
  const RelativePositions positions(random_tensor({8, 2}, 9), buckets);
  const Tensor q = random_tensor({1, 2, 3, 4}, 10), k = random_tensor({1, 2, 7, 4}, 11),
               v = random_tensor({1, 2, 7, 4}, 12);
  const auto biased = [&](const Tensor& table) {
    AttentionOptions options;
    RelativePositions(table, buckets).add_to(options, q, k);
    return scaled_dot_product_attention(q, k, v, options);
  };
  const Tensor table = random_tensor({8, 2}, 9);
  // The same as an additive mask [H, T, S]: the queries are the last three of seven places.
  AttentionOptions options;
  options.mask = Tensor::empty({2, 3, 7}, DType::f64);
  for (std::int64_t i = 0; i < 42; ++i) {
    const std::int64_t h = i / 21, t = i / 7 % 3, s = i % 7;
    options.mask.data<double>()[i] = table.data<double>()[2 * buckets.of(s - (t + 4)) + h];
  }
  EXPECT_LT(largest_difference(biased(table), scaled_dot_product_attention(q, k, v, options)), 1e-12);
  reference::check_gradients([&](const auto& in) { return biased(in[0]); }, {table});
  EXPECT_THROW(RelativePositions(table, RelativeBuckets{9, 6, true}), Error);
  EXPECT_THROW(RelativePositions(table, RelativeBuckets{8, 2, true}), Error);
}

TEST(Positions, CountedOverWhatIsNoPadding) {
  const auto& c = fixture().at("counted");
  const auto ids = c.at("ids").get<std::vector<double>>();
  const std::int64_t padding = c.at("padding");
  Tensor present = Tensor::empty({3, 5}, DType::boolean);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    present.data<bool>()[i] = static_cast<std::int64_t>(ids[i]) != padding;
  }
  const Tensor places = unpadded_positions(present, -1);
  const auto want = c.at("positions").get<std::vector<std::int64_t>>();
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(places.data<std::int64_t>()[i] + padding + 1, want[i]) << i;
  }

  // The table's rows at those places, and what they learn.
  Tensor table = random_tensor({7, 2}, 6);
  table.set_requires_grad();
  const AdditivePositions positions(table, padding + 1);
  const Tensor x = Tensor::zeros({3, 5, 2}, DType::f64);
  const Tensor y = positions.embed(x, PositionIds(places));
  std::vector<double> visits(7, 0);
  for (std::size_t i = 0; i < want.size(); ++i) {
    const auto row = static_cast<std::size_t>(want[i]);
    visits[row] += 1;
    for (std::size_t j = 0; j < 2; ++j) {
      EXPECT_EQ(y.data<double>()[2 * i + j], table.data<double>()[2 * row + j]);
    }
  }
  sum(y).backward();
  for (std::size_t row = 0; row < 7; ++row) EXPECT_EQ(table.grad().data<double>()[2 * row], visits[row]);
}

TEST(Positions, EachRowItsOwnPositions) {
  const AdditivePositions positions(random_tensor({6, 2}, 6));
  const Tensor x = random_tensor({2, 3, 2}, 7);
  const Tensor starts = Tensor::from(std::vector<std::int64_t>{3, 0}, {2});
  const Tensor y = positions.embed(x, PositionIds(starts));
  for (std::int64_t b = 0; b < 2; ++b) {
    const Tensor row = positions.embed(slice(x, 0, b, b + 1), starts.data<std::int64_t>()[b]);
    EXPECT_EQ(slice(y, 0, b, b + 1).to_vector<double>(), row.to_vector<double>());
  }
  const auto at = [](std::int64_t place) {
    return PositionIds(Tensor::from(std::vector<std::int64_t>{place, 0}, {2}));
  };
  EXPECT_THROW(positions.embed(x, at(4)), Error);
  EXPECT_THROW(positions.embed(x, at(-1)), Error);
  EXPECT_THROW(positions.embed(x, PositionIds(Tensor::zeros({3}, DType::i64))), Error);
}

}  // namespace
}  // namespace heed
