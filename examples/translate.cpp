// Translates its arguments with a model directory, and prints for each target token the source token with the
// largest cross-attention weight in the last decoder layer, averaged over heads.
//   translate MODEL TEXT...
#include <cstdio>
#include <string>
#include <vector>

#include "heed/heed.h"

// The source token with the largest mean weight for target token t; weights f32 [H, T, S].
std::size_t most_attended(const heed::Tensor& weights, std::int64_t t) {
  const heed::Tensor mean = heed::mean(weights, 0);  // [T, S]
  return static_cast<std::size_t>(heed::argmax(heed::slice(mean, 0, t, t + 1), 1).item());
}

void print(const heed::Translation& translation) {
  const heed::TranslationCandidate& best = translation.candidates.front();
  std::printf("%s   (log-probability %.2f)\n", best.text.c_str(), best.hypothesis.score);
  if (best.tokens.empty()) return;                                          // an empty line
  const heed::Tensor& weights = best.hypothesis.captured.rbegin()->second;  // sorted by name: the last layer
  for (std::size_t t = 0; t < best.tokens.size(); ++t) {
    const std::size_t s = most_attended(weights, static_cast<std::int64_t>(t));
    std::printf("  %-12s <- %s\n", best.tokens[t].c_str(), translation.source_tokens[s].c_str());
  }
}

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: translate MODEL TEXT...\n");
    return 2;
  }
  try {
    const auto model = heed::load_encoder_decoder(argv[1]);
    const auto tokenizer = heed::load_tokenizer(argv[1]);
    heed::TranslateOptions options;
    options.generation = heed::load_generation_options(argv[1]);
    options.generation.num_beams = 4;
    options.capture = {"decoder.layers.*.cross_attn.weights"};
    const std::vector<std::string> texts(argv + 2, argv + argc);
    for (const heed::Translation& t : heed::translate(*model, *tokenizer, texts, options)) print(t);
  } catch (const heed::Error& error) {
    std::fprintf(stderr, "translate: %s\n", error.what());
    return 1;
  }
}
