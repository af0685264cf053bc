// Holds files, and preprocesses them.
#include "explore/files.h"

#include "heed/error.h"
#include "heed/image/image.h"
#include "models/named_tensors.h"
#include "tasks/image_batches.h"

namespace heed::explore {
namespace {

constexpr std::size_t kMostHeldBytes = 128u << 20, kMostHeldFiles = 32, kAlwaysHeld = 2;
constexpr ImageLimits kImageLimits{.pixels = 50'000'000};
constexpr SoundLimits kSoundLimits{.seconds = 600};

}  // namespace

std::int64_t Files::add(std::string bytes) {
  files_.emplace_back(++last_, std::move(bytes));
  std::size_t held = 0;
  for (const auto& [number, file] : files_) held += file.size();
  while (files_.size() > kAlwaysHeld && (held > kMostHeldBytes || files_.size() > kMostHeldFiles)) {
    held -= files_.front().second.size();
    files_.pop_front();
  }
  return last_;
}

void Files::drop_last() { files_.pop_back(); }

const std::string& Files::bytes(std::int64_t number) const {
  for (const auto& [held, bytes] : files_) {
    if (held == number) return bytes;
  }
  throw Error("file: not found (choose the file again)");
}

FileProcessor load_file_processor(const Model& model, const std::filesystem::path& directory) {
  FileProcessor processor;
  switch (model.input().kind) {
    case InputKind::tokens: break;
    case InputKind::pixels: processor.image = load_image_processor(directory); break;
    case InputKind::spectrogram:
    case InputKind::waveform: processor.sound = load_sound_processor(directory); break;
  }
  return processor;
}

const char* name_of(InputKind kind) {
  switch (kind) {
    case InputKind::tokens: return "text";
    case InputKind::pixels: return "image";
    case InputKind::spectrogram:
    case InputKind::waveform: return "sound";
  }
  HEED_ASSERT(false, "unknown kind of input");
}

FileInput input_of_file(const InputSpec& input, const FileProcessor& processor, std::string_view bytes) {
  const std::string name = name_of(input.kind);
  FileInput result;
  if (processor.image) {
    const Tensor pixels =
        tasks::pixels_of(decode_image(bytes, name, kImageLimits), name, *processor.image, input.row);
    result.seen = {pixels.size(3), pixels.size(2),
                   processor.image->picture(pixels).to_vector<std::uint8_t>()};
    result.tensors[input.name] = pixels;
    return result;
  }
  const SoundProcessor& sound = processor.sound.value();
  const SoundInputs inputs = sound(decode_sound(bytes, name, {.rate = sound.rate(), .limits = kSoundLimits}));
  if (!has_rows(inputs.features.shape(), input.row)) {
    throw Error(name + ": expected features " + row_text(input.row) + " after preprocessing, got " +
                inputs.features.str() +
                " (the sizes of preprocessor_config.json are not those of config.json)");
  }
  result.tensors[input.name] = inputs.features;
  if (inputs.attention_mask.defined() && input.kind == InputKind::waveform)
    result.tensors["attention_mask"] = inputs.attention_mask;
  return result;
}

}  // namespace heed::explore
