// Decodes and preprocesses one file.
#include "tasks/file_input.h"

#include <algorithm>
#include <vector>

#include "files/input_file.h"
#include "heed/error.h"
#include "heed/image/image.h"
#include "heed/image/processor.h"
#include "heed/ops/shape.h"
#include "models/named_tensors.h"

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

FileProcessor load_file_processor(const InputSpec& input, const ModelFiles& files) {
  FileProcessor processor;
  switch (input.kind) {
    case InputKind::tokens: break;
    case InputKind::pixels:
    case InputKind::patches: processor.image = load_image_processor(files); break;
    case InputKind::spectrogram:
    case InputKind::waveform: processor.sound = load_sound_processor(files); break;
  }
  return processor;
}

FileInput file_input(const InputSpec& input, const FileProcessor& processor, const std::string& file,
                     const std::function<void(const std::string& message)>& on_warning) {
  if (processor.image) return input_of_image(input, *processor.image, load_image(file), shown_name(file));
  const SoundProcessor& sound = processor.sound.value();
  return input_of_sound(input, sound, load_sound(file, {.rate = sound.rate(), .on_warning = on_warning}),
                        shown_name(file));
}

FileInput file_input(const InputSpec& input, const FileProcessor& processor, std::string_view bytes,
                     const std::string& name, const FileLimits& limits) {
  if (processor.image)
    return input_of_image(input, *processor.image, decode_image(bytes, name, limits.image), name);
  const SoundProcessor& sound = processor.sound.value();
  const SoundOptions options{.rate = sound.rate(), .limits = limits.sound, .on_warning = {}};
  return input_of_sound(input, sound, decode_sound(bytes, name, options), name);
}

// Decodes image files, one batch after the other.

ModelInput image_input(const std::string& file, const ImageProcessor& processor, const InputSpec& spec) {
  return image_input(load_image(file), shown_name(file), processor, spec);
}

ModelInput image_input(const Tensor& image, const std::string& name, const ImageProcessor& processor,
                       const InputSpec& spec) {
  const ImageInputs made = processor(image);
  if (!has_rows(made.pixel_values.shape(), spec.row)) {
    throw Error(name + ": expected pixels " + row_text(spec.row) + " after preprocessing, got " +
                made.pixel_values.str() +
                " (the sizes of preprocessor_config.json are not those of config.json)");
  }
  if (spec.kind != InputKind::patches) return {.values = made.pixel_values};
  const std::int64_t* grid = made.spatial_shapes.data<std::int64_t>();
  return {.values = slice(made.pixel_values, 1, 0, grid[0] * grid[1]), .grids = made.spatial_shapes};
}

void for_each_image_batch(const ImageInput& input, const ImageProcessor& processor,
                          std::span<const std::string> files, const TaskOptions& options, const char* task,
                          const ImageHandler& handle) {
  if (!input.spec.is_image()) {
    throw Error(std::string(task) + ": expected a model of images, got one of " + input.spec.name);
  }
  const double tokens_of_number =
      static_cast<double>(input.tokens) / static_cast<double>(input.spec.fitting().numel());
  std::vector<Tensor> batch, grids;
  std::vector<std::size_t> chosen;
  double tokens = 0;
  const auto finish = [&] {
    if (batch.empty()) return;
    handle(chosen, {.values = concat(batch, 0), .grids = grids.empty() ? Tensor() : concat(grids, 0)});
    batch.clear();
    grids.clear();
    chosen.clear();
    tokens = 0;
  };
  for (std::size_t i = 0; i < files.size(); ++i) {
    ModelInput image;
    try {
      image = image_input(files[i], processor, input.spec);
    } catch (const Error& error) {
      if (!options.on_error) throw;  // it names the file
      options.fail(task, i, error.what());
      continue;
    }
    const double more = tokens_of_number * static_cast<double>(image.values.numel());
    const bool fits = tokens + more <= static_cast<double>(options.batch_tokens);
    if (!batch.empty() && (!fits || batch.front().shape() != image.values.shape())) finish();
    batch.push_back(image.values);
    if (image.grids.defined()) grids.push_back(image.grids);
    chosen.push_back(i);
    tokens += more;
  }
  finish();
}

}  // namespace heed::tasks
