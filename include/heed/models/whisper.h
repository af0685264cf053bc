// Whisper (Radford et al. 2022, "Robust speech recognition via large-scale weak supervision") as Hugging
// Face's WhisperForConditionalGeneration runs it: two convolutions over a log-mel spectrogram, sinusoidal
// positions in the encoder and learned ones in the decoder, pre-norm layers without biases of keys. forward()
// takes `input_features` f32 [B, num_mel_bins, 2 max_source_positions]; search_features() transcribes.
#pragma once

#include <filesystem>
#include <memory>

#include "heed/io/json.h"
#include "heed/models/model.h"

namespace heed {

/// The model of a directory in Hugging Face layout, its weights held as `dtype`.
std::unique_ptr<EncoderDecoderModel> load_whisper(const std::filesystem::path& directory,
                                                  DType dtype = DType::f32);
/// A new model with random weights (f32) of the sizes a config.json describes.
std::unique_ptr<EncoderDecoderModel> make_whisper(const Config& config, Generator& generator);

}  // namespace heed
