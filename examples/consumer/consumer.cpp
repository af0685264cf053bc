// Uses the installed library as any program would: shapes, random numbers, the thread pool, and an error.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "heed/error.h"
#include "heed/random.h"
#include "heed/shape.h"
#include "heed/threads.h"

int main() {
  const heed::Shape shape = heed::broadcast_shapes("consumer", {4, 1}, {1, 250});
  const heed::RandomStream stream = heed::Generator(7).next();
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  heed::parallel_for(shape.numel(), 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      values[static_cast<std::size_t>(i)] = stream.uniform(static_cast<std::uint64_t>(i));
    }
  });
  double mean = 0.0;
  for (const float value : values) mean += value / static_cast<double>(values.size());
  std::printf("%s numbers, mean %.2f\n", shape.str().c_str(), mean);

  bool refused = false;
  try {
    heed::broadcast_shapes("consumer", {2}, {3});
  } catch (const heed::Error& error) {
    std::printf("refused: %s\n", error.what());
    refused = true;
  }
  return refused && mean > 0.4 && mean < 0.6 ? 0 : 1;
}
