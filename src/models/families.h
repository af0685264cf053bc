// A family of models as a record: the values of model_type, and the function that makes a model of them. Each
// family's file ends with a function that returns its record. The list is here: a new family adds a line.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heed/models/model.h"
#include "models/config_fields.h"
#include "models/weight_builder.h"

// clang-format off
#define HEED_FAMILIES(FAMILY) \
  FAMILY(albert) \
  FAMILY(audio_spectrogram) \
  FAMILY(bart) \
  FAMILY(bert) \
  FAMILY(bloom) \
  FAMILY(clip) \
  FAMILY(deberta) \
  FAMILY(dinov2) \
  FAMILY(dinov3) \
  FAMILY(distilbert) \
  FAMILY(gemma2) \
  FAMILY(gemma3) \
  FAMILY(gpt2) \
  FAMILY(gpt_neox) \
  FAMILY(granite) \
  FAMILY(llama) \
  FAMILY(m2m100) \
  FAMILY(marian) \
  FAMILY(mistral) \
  FAMILY(mixtral) \
  FAMILY(modernbert) \
  FAMILY(moonshine) \
  FAMILY(mpnet) \
  FAMILY(mpt) \
  FAMILY(olmo2) \
  FAMILY(pegasus) \
  FAMILY(phi3) \
  FAMILY(qwen2) \
  FAMILY(qwen3) \
  FAMILY(qwen3_moe) \
  FAMILY(recurrent) \
  FAMILY(roberta) \
  FAMILY(smollm3) \
  FAMILY(t5) \
  FAMILY(transformer) \
  FAMILY(vision_encoder_decoder) \
  FAMILY(vit) \
  FAMILY(wav2vec2) \
  FAMILY(whisper)
// clang-format on

namespace heed {

struct Family {
  std::vector<std::string> model_types;
  std::unique_ptr<Model> (*build)(const WeightSource& source);
  /// What transformers' class names of each model type begin with (Bert), for families with several heads.
  std::vector<std::string> class_names = {};
  /// WeightSource::initializer_range
  double initializer_range = 0.02;
};

/// The record of a family by two functions: `C parse(const Config&)`, which accounts for every key of its
/// own, and `std::unique_ptr<Model> build(const C&, WeightBuilder&)`, which composes the model of parts and
/// takes their tensors.
template <auto parse, auto build>
Family family(std::vector<std::string> model_types, std::vector<std::string> class_names = {}) {
  return {std::move(model_types),
          [](const WeightSource& source) -> std::unique_ptr<Model> {
            const auto config = parse(source.config);  // whose errors come before those of the files
            ignore_common_keys(source.config);
            WeightBuilder weights(source);
            return build(config, weights);
          },
          std::move(class_names)};
}

#define HEED_DECLARE(name) Family name##_family();
HEED_FAMILIES(HEED_DECLARE)
#undef HEED_DECLARE

}  // namespace heed
