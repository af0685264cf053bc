// Answers a question, and prints the text while it is made.
#include <cstdio>

#include "heed/heed.h"

int main(int argc, char** argv) {
  const heed::LoadedModel model = heed::load(argc > 1 ? argv[1] : "SmolLM2-135M-Instruct");
  const auto print = [](const std::string& part) { return std::fputs(part.c_str(), stdout) >= 0; };
  model.chat({{"system", "Answer in one sentence."}, {"user", "Why is the sky blue?"}}, {.on_text = print});
}
