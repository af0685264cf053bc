// ViT (Dosovitskiy et al. 2021, "An image is worth 16x16 words") as Hugging Face's ViTModel and
// ViTForImageClassification run it: the patches of an image as tokens after a learned first token, learned
// positions, pre-norm layers. forward() takes `pixel_values` f32 [B, C, H, W], normalized as in the model's
// training.
#pragma once

#include <filesystem>
#include <memory>

#include "heed/io/json.h"
#include "heed/models/model.h"

namespace heed {

/// The model of a directory in Hugging Face layout, its weights held as `dtype`.
std::unique_ptr<Model> load_vit(const std::filesystem::path& directory, DType dtype = DType::f32);
/// A new model with random weights (f32) of the sizes a config.json describes.
std::unique_ptr<Model> make_vit(const Config& config, Generator& generator);

}  // namespace heed
