// Translates its arguments.
#include <cstdio>

#include "heed/heed.h"

int main(int argc, char** argv) {
  const heed::LoadedModel model = heed::load("en-fr");
  const std::vector<std::string> texts(argv + 1, argv + argc);
  for (const std::string& translation : model.translate(texts)) std::puts(translation.c_str());
}
