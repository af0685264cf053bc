// What it costs to read attention weights: processor time of a decoder's forward pass with the weights of one
// head and of all heads, beside passes without taps before and after. Other programs, and the waiting of
// threads, disturb it least on one processor: taskset -c 0.
//   build/release/bench_taps MODEL [TOKENS]
#include <fmt/core.h>

#include <cstdlib>
#include <ctime>
#include <vector>

#include "bench/measure.h"
#include "heed/heed.h"
#include "heed/models/model.h"
#include "heed/models/registry.h"
#include "heed/nn/context.h"

namespace {

using heed::bench::median;

class Pass {
 public:
  Pass(const heed::Model& model, std::int64_t tokens) : model_(model) {
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < tokens; ++i) ids.push_back(i * 7919 % model.vocab_size());
    inputs_["input_ids"] = heed::Tensor::from(ids, {1, tokens});
  }
  double seconds(const std::string& layers, const heed::TapSelection& selection) const {
    heed::Taps taps;
    if (!layers.empty()) {
      taps.listen("decoder.layers." + layers + ".self_attn.weights", selection,
                  [](const std::string&, heed::Tensor&) {});
    }
    heed::Context context{.taps = &taps};
    const std::clock_t start = std::clock();
    model_.forward(inputs_, {}, context);
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  }

 private:
  const heed::Model& model_;
  heed::TensorMap inputs_;
};

void run(const std::string& directory, std::int64_t tokens) {
  const heed::NoGradients guard;
  const auto model = heed::load_model(directory);
  const Pass pass(*model, tokens);
  pass.seconds("*", {});  // memory and caches
  std::vector<double> one, all, none;
  for (int i = 0; i < 9; ++i) {
    const double before = pass.seconds("", {}), with_one = pass.seconds("0", {.heads = {0}});
    const double with_all = pass.seconds("*", {}), after = pass.seconds("", {});
    one.push_back(2 * with_one / (before + after));
    all.push_back(2 * with_all / (before + after));
    none.push_back(after / before);
  }
  fmt::print("one head {:.3f}, all heads {:.3f}, none again {:.3f} of a pass without taps\n", median(one),
             median(all), median(none));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw heed::Error("usage: bench_taps MODEL [TOKENS]");
    run(argv[1], argc > 2 ? std::atoll(argv[2]) : 1024);
    return 0;
  } catch (const heed::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
