// Translates its arguments with an installed model, and says what a model cannot do.
#include <cstdio>

#include "heed/heed.h"

int main(int argc, char** argv) try {
  const heed::LoadedModel model = heed::load("en-fr");
  for (const std::string& text : model.translate(std::vector<std::string>(argv + 1, argv + argc)))
    std::puts(text.c_str());
  if (model.can(heed::Task::generate)) std::puts(model.generate("Once upon a time").c_str());
} catch (const heed::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
