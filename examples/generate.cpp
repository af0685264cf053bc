// Continues a prompt, and prints the text while it is made.
#include <cstdio>

#include "heed/heed.h"

int main() {
  heed::LoadedModel model = heed::load("shakespeare");
  model.generation().max_new_tokens = 200;
  const auto print = [](const std::string& part) { return std::fputs(part.c_str(), stdout) >= 0; };
  model.generate("ROMEO:\n", {.on_text = print, .stop_strings = {".\n"}});
}
