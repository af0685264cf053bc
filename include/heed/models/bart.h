// BART (Lewis et al. 2020, "BART: Denoising sequence-to-sequence pre-training") as Hugging Face's
// BartForConditionalGeneration runs it: post-norm layers, learned positions from row 2 on, a norm behind the
// embeddings, one table for encoder, decoder and output. mBART (Liu et al. 2020) has its norms before the
// sublayers and at the end of each stack.
#pragma once

#include <filesystem>
#include <memory>

#include "heed/io/json.h"
#include "heed/models/model.h"

namespace heed {

/// The model of a directory in Hugging Face layout, its weights held as `dtype`.
std::unique_ptr<EncoderDecoderModel> load_bart(const std::filesystem::path& directory,
                                               DType dtype = DType::f32);
/// A new model with random weights (f32) of the sizes a config.json describes.
std::unique_ptr<EncoderDecoderModel> make_bart(const Config& config, Generator& generator);

}  // namespace heed
