// Decodes by libsndfile; a chained Ogg file link by link.
#include <sndfile.h>

#include <mutex>

#include "core/fork_safe_mutex.h"
#include "sound/decoder.h"

namespace heed::sound {
namespace {

SF_VIRTUAL_IO callbacks() {
  SF_VIRTUAL_IO io{};
  io.get_filelen = [](void* user) {
    const auto& bytes = *static_cast<DecodedBytes*>(user);
    return static_cast<sf_count_t>(bytes.end - bytes.begin);
  };
  io.seek = [](sf_count_t offset, int whence, void* user) -> sf_count_t {
    return static_cast<DecodedBytes*>(user)->seek(offset, whence);
  };
  io.read = [](void* to, sf_count_t count, void* user) -> sf_count_t {
    return static_cast<DecodedBytes*>(user)->read(to, count);
  };
  io.write = [](const void*, sf_count_t, void*) -> sf_count_t { return 0; };
  io.tell = [](void* user) { return static_cast<sf_count_t>(static_cast<DecodedBytes*>(user)->position); };
  return io;
}

std::string format_name(SNDFILE* file, int code) {
  SF_FORMAT_INFO info{};
  info.format = code;
  return sf_command(file, SFC_GET_FORMAT_INFO, &info, sizeof info) == 0 && info.name != nullptr ? info.name
                                                                                                : "unknown";
}

class SndfileStream : public FrameStream {
 public:
  SndfileStream(DecodedBytes& bytes, bool is_ogg) : bytes_(bytes), is_ogg_(is_ogg) {}

  bool next_part(SoundInfo& info, std::string& damage) override {
    if (file_) {
      if (bytes_.end >= bytes_.source.size()) return false;
      bytes_.begin = bytes_.end;
    }
    file_.reset();
    bytes_.position = 0;
    if (is_ogg_) bytes_.end = end_of_ogg_link(bytes_.source, bytes_.begin);
    damage = open(info);
    return damage.empty();
  }

  Frames read(std::span<float> samples) override {
    const sf_count_t got =
        sf_readf_float(file_.get(), samples.data(), static_cast<sf_count_t>(samples.size()) / channels_);
    Frames frames{.count = got > 0 ? static_cast<std::size_t>(got) : 0};
    if (frames.count == 0 && sf_error(file_.get()) != SF_ERR_NO_ERROR)
      frames.damage = sf_strerror(file_.get());
    return frames;
  }

 private:
  // Returns what is wrong.
  std::string open(SoundInfo& info) {
    SF_VIRTUAL_IO io = callbacks();
    SF_INFO header{};
    int error = SF_ERR_NO_ERROR;
    {
      static ForkSafeMutex mutex;  // libsndfile keeps the error of a file that it cannot open in one place
      const std::lock_guard lock(mutex);
      file_.reset(sf_open_virtual(&io, SFM_READ, &header, &bytes_));
      if (!file_) error = sf_error(nullptr);
    }
    if (error == SF_ERR_UNSUPPORTED_ENCODING) {
      return "expected sound in an encoding that libsndfile decodes, got another (convert it: ffmpeg -i FILE "
             "sound.wav)";
    }
    if (!file_) return "expected a whole sound file, got one that is damaged or truncated";
    info.format = format_name(file_.get(), header.format & SF_FORMAT_TYPEMASK) + ", " +
                  format_name(file_.get(), header.format & SF_FORMAT_SUBMASK);
    info.rate = header.samplerate;
    info.channels = channels_ = header.channels;
    info.frames.reset();
    if (header.frames >= 0 && header.frames != SF_COUNT_MAX) info.frames = header.frames;
    return {};
  }

  struct Close {
    void operator()(SNDFILE* file) const { sf_close(file); }
  };
  DecodedBytes& bytes_;
  bool is_ogg_;
  std::unique_ptr<SNDFILE, Close> file_;
  sf_count_t channels_ = 1;
};

}  // namespace

std::unique_ptr<FrameStream> open_sndfile(DecodedBytes& bytes, bool is_ogg) {
  return std::make_unique<SndfileStream>(bytes, is_ogg);
}

}  // namespace heed::sound
