// Decodes MP3 by libmpg123, to the end of the file: the number of frames in its first header is a hint.
#include <mpg123.h>

#include "heed/error.h"
#include "sound/decoder.h"

namespace heed::sound {
namespace {

class Mp3Stream : public FrameStream {
 public:
  explicit Mp3Stream(DecodedBytes& bytes) : bytes_(bytes), decoder_(mpg123_new(nullptr, nullptr)) {
    mpg123_handle* mp3 = decoder_.get();
    const auto set = [&](mpg123_parms name, long value) {
      return mpg123_param(mp3, name, value, 0) == MPG123_OK;
    };
    const bool ready =
        mp3 != nullptr && set(MPG123_REMOVE_FLAGS, MPG123_AUTO_RESAMPLE) &&
        set(MPG123_ADD_FLAGS, MPG123_QUIET | MPG123_FORCE_FLOAT | MPG123_GAPLESS) &&
        set(MPG123_RESYNC_LIMIT, -1) &&
        mpg123_replace_reader_handle(
            mp3,
            [](void* user, void* to, std::size_t count) -> ssize_t {
              return static_cast<DecodedBytes*>(user)->read(to, static_cast<std::int64_t>(count));
            },
            [](void* user, off_t offset, int whence) -> off_t {
              return static_cast<DecodedBytes*>(user)->seek(offset, whence);
            },
            nullptr) == MPG123_OK;
    if (!ready || mpg123_open_handle(mp3, &bytes_) != MPG123_OK) {
      throw Error(bytes_.source.name() + ": libmpg123 cannot decode it: " + mpg123_strerror(mp3));
    }
  }

  bool next_part(SoundInfo& info, std::string& damage) override {
    if (started_ && !changes_) return false;
    started_ = true;
    changes_ = false;
    long rate = 0;
    int channels = 0, encoding = 0;
    if (mpg123_getformat(decoder_.get(), &rate, &channels, &encoding) != MPG123_OK) {
      damage = "expected a whole sound file, got one that is damaged or truncated";
      return false;
    }
    const off_t frames = mpg123_length(decoder_.get());
    info = {.format = "MPEG-1/2 Audio, MPEG Layer III", .rate = rate, .channels = channels, .frames = {}};
    if (frames >= 0) info.frames = frames;
    channels_ = static_cast<std::size_t>(channels);
    return true;
  }

  Frames read(std::span<float> samples) override {
    Frames frames;
    int result = MPG123_OK;
    while (frames.count == 0 && result == MPG123_OK && !changes_) {  // a frame may have no samples
      std::size_t bytes = 0;
      result = mpg123_read(decoder_.get(), samples.data(), samples.size_bytes(), &bytes);
      frames.count = bytes / sizeof(float) / channels_;
    }
    changes_ = changes_ || result == MPG123_NEW_FORMAT;
    if (frames.count == 0 && !changes_ && result != MPG123_DONE)
      frames.damage = mpg123_strerror(decoder_.get());
    return frames;
  }

 private:
  struct Close {
    void operator()(mpg123_handle* handle) const { mpg123_delete(handle); }
  };
  DecodedBytes& bytes_;
  std::unique_ptr<mpg123_handle, Close> decoder_;
  bool started_ = false, changes_ = false;  // of rate or channels, after what was read
  std::size_t channels_ = 1;
};

}  // namespace

std::unique_ptr<FrameStream> open_mp3(DecodedBytes& bytes) { return std::make_unique<Mp3Stream>(bytes); }

}  // namespace heed::sound
