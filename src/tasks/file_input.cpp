// Decodes and preprocesses one file.
#include "tasks/file_input.h"

#include "files/input_file.h"
#include "heed/error.h"
#include "models/named_tensors.h"
#include "tasks/image_batches.h"

namespace heed::tasks {
namespace {

FileInput input_of_image(const InputSpec& input, const ImageProcessor& processor, const Tensor& image,
                         const std::string& name) {
  const ModelInput made = image_input(image, name, processor, input);
  FileInput result{{{input.name, made.values}}, processor.picture(made.values, made.grids)};
  if (made.grids.defined()) result.tensors["spatial_shapes"] = made.grids;
  return result;
}

FileInput input_of_sound(const InputSpec& input, const SoundProcessor& processor, const Tensor& samples,
                         const std::string& name) {
  const SoundInputs inputs = processor(samples);
  if (!has_rows(inputs.features.shape(), input.row)) {
    throw Error(name + ": expected features " + row_text(input.row) + " after preprocessing, got " +
                inputs.features.str() +
                " (the sizes of preprocessor_config.json are not those of config.json)");
  }
  FileInput result{{{input.name, inputs.features}}};
  if (inputs.attention_mask.defined() && input.kind == InputKind::waveform)
    result.tensors["attention_mask"] = inputs.attention_mask;
  return result;
}

}  // namespace

FileProcessor load_file_processor(const InputSpec& input, const std::filesystem::path& directory) {
  FileProcessor processor;
  switch (input.kind) {
    case InputKind::tokens: break;
    case InputKind::pixels:
    case InputKind::patches: processor.image = load_image_processor(directory); break;
    case InputKind::spectrogram:
    case InputKind::waveform: processor.sound = load_sound_processor(directory); break;
  }
  return processor;
}

FileInput file_input(const InputSpec& input, const FileProcessor& processor, const std::string& file) {
  if (processor.image) return input_of_image(input, *processor.image, load_image(file), shown_name(file));
  const SoundProcessor& sound = processor.sound.value();
  return input_of_sound(input, sound, load_sound(file, {.rate = sound.rate()}), shown_name(file));
}

FileInput file_input(const InputSpec& input, const FileProcessor& processor, std::string_view bytes,
                     const std::string& name, const FileLimits& limits) {
  if (processor.image)
    return input_of_image(input, *processor.image, decode_image(bytes, name, limits.image), name);
  const SoundProcessor& sound = processor.sound.value();
  const SoundOptions options{.rate = sound.rate(), .limits = limits.sound};
  return input_of_sound(input, sound, decode_sound(bytes, name, options), name);
}

}  // namespace heed::tasks
