// The model of a benchmark: from a directory, or with random weights.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/models.h"
#include "heed/io/json.h"
#include "heed/models/model.h"

namespace heed::cli {

/// Selects the model. If none of the first three is given, it is a shape that suits the kind of benchmark.
struct BenchModelOptions {
  ModelChoice model;
  std::filesystem::path config;  // a config.json: random weights with its sizes
  std::string shape;             // random weights with the sizes of a known model
  std::string dtype = "f32";     // of the weights in memory
  void add_to(CLI::App& command, const std::string& suitable_shape);
};

struct BenchModel {
  std::string name;
  Config config;
  std::unique_ptr<Model> model;
};
BenchModel open_bench_model(const BenchModelOptions& options);

/// The minimum cost of a token, computed from the sizes of the tensors alone.
struct ModelSize {
  double encoder_weights = 0;  // weights multiplied by each source token (of an encoder: each token)
  double decoder_weights = 0;  // the same for a decoder, including the output layer
  double weight_bytes = 0;     // average storage of one weight
  double cache_numbers = 0;    // numbers that one position adds to a decoder's caches
};
ModelSize size_of_model(const BenchModel& model);

}  // namespace heed::cli
