// The model that a bench of a model runs: one of a directory, or one of random weights.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "heed/io/json.h"
#include "heed/models/model.h"

namespace heed::cli {

/// Which model. Without any of the three it is the shape that suits the kind of bench.
struct BenchModelOptions {
  std::string model;             // a directory or a name
  std::filesystem::path config;  // a config.json: random weights of its sizes
  std::string shape;             // random weights of a known size
  std::string dtype = "f32";     // of the weights in memory
  void add_to(CLI::App& command, const std::string& suitable_shape);
};

struct BenchModel {
  std::string name;
  Config config;
  std::unique_ptr<Model> model;
};
BenchModel open_bench_model(const BenchModelOptions& options);

/// What a token costs at least, from the sizes of the tensors alone.
struct ModelSize {
  double encoder_weights = 0;  // numbers that every source token is multiplied by; of an encoder, every token
  double decoder_weights = 0;  // of a decoder, output layer included
  double weight_bytes = 0;     // by which one number is stored, on average
  double cache_numbers = 0;    // that one position adds to a decoder's caches
};
ModelSize size_of_model(const BenchModel& model);

}  // namespace heed::cli
