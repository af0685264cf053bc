// bench_tokenize TOKENIZER FILE: the processor seconds that one thread takes to encode every line of a file.
// Reading the tokenizer and the file is not counted. Every text is encoded once: users rarely encode one
// twice.
#include <fmt/core.h>

#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "heed/heed.h"
#include "heed/text/tokenizer.h"

int main(int count, char** arguments) {
  try {
    if (count != 3) throw heed::Error("bench_tokenize: expected TOKENIZER FILE");
    const auto tokenizer = heed::load_tokenizer(arguments[1]);
    std::vector<std::string> lines;
    std::ifstream file(arguments[2]);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    std::size_t tokens = 0;
    const std::clock_t started = std::clock();
    for (const std::string& line : lines) tokens += tokenizer->encode(line).ids.size();
    const double seconds = static_cast<double>(std::clock() - started) / CLOCKS_PER_SEC;
    if (tokens == 0) throw heed::Error("bench_tokenize: expected texts, got none");
    fmt::print("{}\n", seconds);
  } catch (const heed::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
