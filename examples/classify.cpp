// Labels a text.
#include <cstdio>

#include "heed/heed.h"

int main() {
  const heed::LoadedModel model = heed::load("reviews");
  for (const heed::Label& label : model.classify("A moving story, told with great care."))
    std::printf("%s %.3f\n", label.name.c_str(), label.score);
}
