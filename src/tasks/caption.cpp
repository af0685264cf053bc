// Searches for captions, batch after batch of images.
#include "heed/tasks/caption.h"

#include <map>

#include "core/strings.h"
#include "generate/option_fields.h"
#include "heed/models/model.h"
#include "heed/text/tokenizer.h"
#include "tasks/file_input.h"

namespace heed {
namespace {

// The text of one caption while it is written, without the spaces at its ends: those are held back until
// something follows.
class CaptionStream {
 public:
  explicit CaptionStream(const Tokenizer& tokenizer) : decoder_(tokenizer) {}
  std::string push(std::int64_t id) { return shown(decoder_.push(id)); }
  std::string finish() { return shown(decoder_.finish()); }

 private:
  std::string shown(const std::string& part) {
    held_ += part;
    const std::string text(trimmed(held_));
    if (text.empty()) {
      if (!begun_) held_.clear();
      return "";
    }
    const std::size_t end = held_.rfind(text) + text.size();
    const std::string result = begun_ ? held_.substr(0, end) : text;
    held_.erase(0, end);
    begun_ = true;
    return result;
  }

  StreamingDecoder decoder_;
  std::string held_;
  bool begun_ = false;
};

// How many tokens the encoder makes of an image of the usual size.
std::int64_t tokens_of(const InputSpec& input) {
  const Shape& image = input.fitting();
  if (input.patch.rank() == 0) return 1;
  return input.leading + (image[1] / input.patch[0]) * (image[2] / input.patch[1]);
}

}  // namespace

std::vector<std::vector<Caption>> caption_images(const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                                                 const ImageProcessor& processor,
                                                 std::span<const std::string> files,
                                                 const CaptionOptions& options) {
  GenerationOptions generation = options.generation;
  SearchHooks all{.capture = options.capture, .stop = options.task.stop};
  generate::allow_whole_length(model, generation, all);
  std::vector<std::vector<Caption>> captions(files.size());
  const InputSpec input = model.input();
  const auto search_batch = [&](std::span<const std::size_t> chosen, const ModelInput& images) {
    const Tensor& pixels = images.values;
    SearchHooks hooks = all;
    for (const std::size_t index : chosen) hooks.sample_ids.push_back(options.task.first_index + index);
    std::map<std::pair<std::size_t, std::size_t>, CaptionStream> streams;  // by row and sequence
    if (options.on_text) {
      hooks.on_token = [&](std::size_t row, std::size_t sequence, std::int64_t id) {
        CaptionStream& stream = streams.try_emplace({row, sequence}, tokenizer).first->second;
        return options.on_text(chosen[row], sequence, stream.push(id));
      };
    }
    // The batch has as many rows as fit already.
    const std::int64_t batch_tokens = pixels.size(0) * pixels.size(-1) * generation.num_beams;
    auto found = search_features(model, pixels, {}, generation, batch_tokens, hooks);
    for (auto& [key, stream] : streams) options.on_text(chosen[key.first], key.second, stream.finish());
    for (std::size_t row = 0; row < chosen.size(); ++row) {
      const Hypothesis& best = found[row].front();
      if (best.finish_reason == FinishReason::positions)
        options.task.warn(chosen[row], positions_warning(best, 1, options.generation));
      for (Hypothesis& hypothesis : found[row]) {
        const std::string text = tokenizer.decode(hypothesis.ids);
        captions[chosen[row]].push_back({std::string(trimmed(text)), std::move(hypothesis)});
      }
    }
  };
  tasks::for_each_image_batch({input, tokens_of(input) * generation.num_beams}, processor, files,
                              options.task, "caption", search_batch);
  return captions;
}

}  // namespace heed
