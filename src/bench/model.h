// Whole models as work on random tokens. The model is a user's, or has random weights.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/measure.h"
#include "heed/io/json.h"
#include "heed/models/model.h"
#include "heed/open/loaded_model.h"

namespace heed::bench {

struct BenchModel {
  std::string name;
  LoadOptions options;
  Config config;
  LoadedModel opened;

  const Model& model() const { return opened.model(); }
};

/// Opens a model by its name.
std::shared_ptr<const BenchModel> named_model(const std::string& name, LoadOptions options);
/// Makes a model with random weights, of the family and sizes of a config.json, that is reported as `name`.
std::shared_ptr<const BenchModel> random_model(const std::string& name, const Config& config,
                                               LoadOptions options);

/// The names of models whose sizes are known: "gpt2".
std::vector<std::string> known_shapes();
/// The config.json of one of them. Throws Error for another name.
Config known_shape(const std::string& name);

struct ModelSizes {
  std::int64_t batch = 1;
  std::int64_t length = 1;      // tokens of each sequence: prompt or source; images and sounds have their own
  std::int64_t new_tokens = 1;  // to generate for each sequence
  std::int64_t beams = 1;
  CacheDType cache_dtype = CacheDType::f32;
};

/// The work of one pass of an encoder, of generation with a decoder, of translation with an encoder-decoder,
/// and of a training step with AdamW. Each throws Error for a model of another kind.
Work encode_work(const std::shared_ptr<const BenchModel>& model, const ModelSizes& sizes);
Work generate_work(const std::shared_ptr<const BenchModel>& model, const ModelSizes& sizes);
Work translate_work(const std::shared_ptr<const BenchModel>& model, const ModelSizes& sizes);
Work train_work(const std::shared_ptr<const BenchModel>& model, const ModelSizes& sizes);

}  // namespace heed::bench
