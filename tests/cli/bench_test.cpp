// heed bench: a report with every documented number, each with a plausible value.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;

Json bench(Words words) {
  words.insert(words.begin(), "bench");
  words.insert(words.end(), {"--json", "--seconds", "0.05"});
  return Json::parse(output_of(words));
}

// Does not check that a limit is a limit: a busy machine disturbs it and the work at different times.
void expect_sane(const Json& report) {
  for (const char* key : {"median_s", "min_s", "max_s", "gflops", "gbps", "peak_gflops", "peak_gbps"})
    EXPECT_GT(report.at(key).get<double>(), 0) << key;
  const auto share = [&](const char* rate, const char* peak) {
    return report.at(rate).get<double>() / report.at(peak).get<double>();
  };
  EXPECT_NEAR(report.at("fraction").get<double>(),
              std::max(share("gflops", "peak_gflops"), share("gbps", "peak_gbps")), 1e-6);
  EXPECT_GE(report.at("repeats").get<int>(), 3);
  EXPECT_EQ(report.at("threads").get<int>(), 1);
  EXPECT_LE(report.at("min_s").get<double>(), report.at("median_s").get<double>());
  EXPECT_LE(report.at("median_s").get<double>(), report.at("max_s").get<double>());
  EXPECT_GT(report.at("peak_memory_bytes").get<std::int64_t>(), 1 << 20);
}

TEST(Bench, LengthsGivesCostsSlopesAndCharts) {
  const Folder folder;
  const std::vector<Json> kinds = json_lines(
      output_of({"bench", "lengths", "--from", "64", "--to", "512", "--formula-to", "256", "--head-dim", "8",
                 "--window", "16", "--repeats", "1", "--json", "--output", folder / "costs"}));
  ASSERT_EQ(kinds.size(), 6u);
  for (const Json& kind : kinds) {
    const bool formula = kind.at("kind") == "formula";
    ASSERT_EQ(kind.at("costs").size(), formula ? 3u : 4u) << kind;
    for (const Json& cost : kind.at("costs")) {
      for (const char* key : {"seconds", "bytes", "token_seconds"})
        EXPECT_GT(cost.at(key).get<double>(), 0) << kind;
    }
    EXPECT_EQ(kind.at("bytes_slope").get<double>() > 1.25, formula) << kind;
  }
  for (const char* chart : {"time.svg", "memory.svg", "token.svg"})
    EXPECT_THAT(slurp(folder.path() / "costs" / chart), HasSubstr("linear (")) << chart;
  EXPECT_THAT(run({"bench", "lengths", "--from", "128", "--to", "64"}).err, HasSubstr("--from"));
}

TEST(Bench, TimesRecurrentLayers) {
  const Json report = bench({"recurrent", "--cell", "gru", "--batch", "2", "--length", "3", "--input-size",
                             "5", "--hidden", "4", "--backward", "--threads", "1"});
  expect_sane(report);
  EXPECT_EQ(report.at("shape").at("cell"), "gru");
  EXPECT_THAT(run({"bench", "recurrent", "--cell", "rnn"}).err, HasSubstr("expected lstm or gru, got rnn"));
}

TEST(Bench, TimesAttention) {
  const Words shape{"attention", "--num-heads", "2", "--head-dim", "8", "--length", "40"};
  const auto with = [&](const Words& more) {
    Words words = shape;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  expect_sane(bench(with({"--causal", "--window", "10"})));
  expect_sane(bench(with({"--pattern", "strided", "--stride", "10"})));
  expect_sane(bench(with({"--pattern", "linear", "--causal", "--backward"})));
  const Json both = bench(with({"--backward", "--dtype", "f64"}));
  expect_sane(both);
  EXPECT_GT(both.at("median_s").get<double>(), both.at("backward_median_s").get<double>());
  EXPECT_GT(both.at("backward_fraction").get<double>(), 0);
  EXPECT_EQ(both.at("shape").at("kv_heads"), 2);
  EXPECT_EQ(both.at("shape").at("dtype"), "f64");
}

TEST(Bench, GemmCountsOperationsAndBytes) {
  const Json report = bench({"gemm", "--m", "32", "--n", "48", "--k", "64"});
  expect_sane(report);
  const double seconds = report.at("median_s").get<double>();
  EXPECT_NEAR(report.at("gflops").get<double>() * seconds * 1e9, 2.0 * 32 * 48 * 64, 1);
  EXPECT_NEAR(report.at("gbps").get<double>() * seconds * 1e9, 4 * (32 * 48 + 48 * 64 + 32 * 64), 1);
  EXPECT_EQ(report.at("shape"), (Json{{"m", 32}, {"n", 48}, {"k", 64}, {"dtype", "f32"}, {"plain", false}}));
  const Json plain = bench({"gemm", "--m", "1", "--n", "48", "--k", "64", "--dtype", "bf16", "--plain"});
  expect_sane(plain);
  EXPECT_EQ(plain.at("shape").at("plain"), true);
}

TEST(Bench, RunsWholeModels) {
  const Json translated = bench({"translate", "--model", marian(), "--batch", "2", "--length", "5",
                                 "--new-tokens", "6", "--num-beams", "2"});
  expect_sane(translated);
  EXPECT_NEAR(translated.at("tokens_per_s").get<double>() * translated.at("median_s").get<double>(), 2 * 6,
              1e-6);
  EXPECT_EQ(translated.at("shape").at("family"), "marian");
  const Json encoded =
      bench({"encode", "--model", HEED_FIXTURES "/encoders/bert-mlm", "--batch", "3", "--length", "6"});
  expect_sane(encoded);
  EXPECT_NEAR(encoded.at("tokens_per_s").get<double>() * encoded.at("median_s").get<double>(), 3 * 6, 1e-6);
  // The weights of a step: two layers with d_model 48, and 512 tokens. The caches hold keys and values of 5.5
  // positions on average.
  const Json generated = bench({"generate", "--model", HEED_FIXTURES "/decoders/gpt2", "--batch", "2",
                                "--length", "4", "--new-tokens", "3"});
  expect_sane(generated);
  const double weights = 2 * 12 * 48 * 48 + 512 * 48, seconds = generated.at("median_s").get<double>();
  EXPECT_NEAR(generated.at("gflops").get<double>() * seconds * 1e9, 2 * weights * 2 * (3 + 3), 1);
  EXPECT_NEAR(generated.at("gbps").get<double>() * seconds * 1e9, 3 * 4 * (weights + 2 * 5.5 * 2 * 2 * 48),
              1);
  // A head's keys and values are of 12 numbers: in int8, of 16 bytes.
  const Json small = bench({"generate", "--model", HEED_FIXTURES "/decoders/gpt2", "--batch", "2", "--length",
                            "4", "--new-tokens", "3", "--cache-dtype", "int8"});
  const auto bytes = [](const Json& report) { return report.at("shape").at("cache_bytes"); };
  EXPECT_EQ(bytes(generated), 2 * 7 * 2 * 2 * 48 * 4);
  EXPECT_EQ(bytes(small), 2 * 7 * 2 * 2 * 4 * 16);
  EXPECT_EQ(small.at("shape").at("cache_dtype"), "int8");
  EXPECT_NEAR(small.at("gbps").get<double>() * small.at("median_s").get<double>() * 1e9,
              3 * (4 * weights + 2 * 5.5 * 2 * 2 * 4 * 16), 1);
  const Json trained =
      bench({"train", "--config", marian() + "/config.json", "--batch", "2", "--length", "7"});
  expect_sane(trained);
  const double parameters = trained.at("shape").at("parameters").get<double>();
  EXPECT_EQ(parameters, translated.at("shape").at("parameters").get<double>());
  EXPECT_NEAR(trained.at("gflops").get<double>() * trained.at("median_s").get<double>() * 1e9,
              6 * parameters * 2 * 7, 1);
}

TEST(Bench, TellsPeopleTheSame) {
  EXPECT_THAT(output_of({"bench", "gemm", "--m", "16", "--n", "16", "--k", "16", "--repeats", "3"}),
              testing::AllOf(HasSubstr("gemm  m 16  n 16  k 16  dtype f32"), HasSubstr("in 3 repeats"),
                             HasSubstr("Gflop/s")));
}

TEST(Bench, RefusesWrongUse) {
  for (const Words& words :
       std::vector<Words>{{"bench", "dreams"},
                          {"bench", "attention", "--num-heads", "0"},
                          {"bench", "attention", "--num-heads", "3", "--num-kv-heads", "2"},
                          {"bench", "attention", "--dtype", "f8"},
                          {"bench", "attention", "--pattern", "wide"},
                          {"bench", "translate", "--shape", "elephant"},
                          {"bench", "translate", "--shape", "marian", "--model", "x"},
                          {"bench", "train", "--dtype", "f64"},
                          {"bench", "generate", "--cache-dtype", "f64"},
                          {"bench", "encode", "--cache-dtype", "bf16"},
                          {"bench", "gemm", "--m", "-1"},
                          {"bench", "gemm", "--seconds", "nan"},
                          {"bench", "gemm", "--seconds", "0"}}) {
    const Result result = run(words);
    EXPECT_EQ(result.status, 2) << testing::PrintToString(words);
    EXPECT_THAT(result.err, testing::StartsWith("heed: error: "));
    EXPECT_EQ(lines(result.err).size(), 1u);
  }
}

}  // namespace
}  // namespace heed::cli_test
