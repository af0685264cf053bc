// Decodes image files, one batch after the other.
#include "tasks/image_batches.h"

#include <algorithm>
#include <vector>

#include "heed/image/image.h"
#include "heed/image/processor.h"
#include "heed/ops/shape.h"
#include "models/named_tensors.h"

namespace heed::tasks {

Tensor pixels_of(const std::string& file, const ImageProcessor& processor, const Shape& row) {
  return pixels_of(load_image(file), file, processor, row);
}

Tensor pixels_of(const Tensor& image, const std::string& name, const ImageProcessor& processor,
                 const Shape& row) {
  const Tensor pixels = processor(image).pixel_values;
  if (has_rows(pixels.shape(), row)) return pixels;
  throw Error(name + ": expected pixels " + row_text(row) + " after preprocessing, got " + pixels.str() +
              " (the sizes of preprocessor_config.json are not those of config.json)");
}

void for_each_image_batch(const ImageInput& input, const ImageProcessor& processor,
                          std::span<const std::string> files, const TaskOptions& options, const char* task,
                          const PixelHandler& handle) {
  if (input.spec.kind != InputKind::pixels) {
    throw Error(std::string(task) + ": expected a model of images, got one of " + input.spec.name);
  }
  const double tokens_of_number =
      static_cast<double>(input.tokens) / static_cast<double>(input.spec.fitting().numel());
  std::vector<Tensor> batch;
  std::vector<std::size_t> chosen;
  double tokens = 0;
  const auto finish = [&] {
    if (batch.empty()) return;
    handle(chosen, concat(batch, 0));
    batch.clear();
    chosen.clear();
    tokens = 0;
  };
  for (std::size_t i = 0; i < files.size(); ++i) {
    Tensor pixels;
    try {
      pixels = pixels_of(files[i], processor, input.spec.row);
    } catch (const Error& error) {
      if (!options.on_error) throw;  // it names the file
      options.fail(task, i, error.what());
      continue;
    }
    const double more = tokens_of_number * static_cast<double>(pixels.numel());
    const bool fits = tokens + more <= static_cast<double>(options.batch_tokens);
    if (!batch.empty() && (!fits || batch.front().shape() != pixels.shape())) finish();
    batch.push_back(pixels);
    chosen.push_back(i);
    tokens += more;
  }
  finish();
}

}  // namespace heed::tasks
