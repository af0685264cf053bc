// Files by name, on disk or made of a GGUF file's metadata.
#include "heed/files/model_files.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "files/gguf_file.h"
#include "files/input_file.h"
#include "heed/error.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

fs::path absolute_path(const fs::path& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  return error ? path : absolute;
}

}  // namespace

struct ModelFiles::State {
  // What one maker has made.
  struct Documents {
    Maker maker;
    mutable std::once_flag once;
    mutable std::map<std::string, std::string> texts;
  };

  State(const fs::path& given, std::vector<Maker> list)
      : shown(given), absolute(absolute_path(given)), is_gguf(heed::is_gguf(given)) {
    for (Maker& maker : list) documents.emplace_back().maker = std::move(maker);
  }

  std::shared_ptr<const GgufFile> file() const {
    std::call_once(opened_,
                   [this] { gguf_ = std::make_shared<const GgufFile>(GgufFile::open(absolute, shown)); });
    return gguf_;
  }

  const fs::path shown, absolute;
  const bool is_gguf;
  std::deque<Documents> documents;

 private:
  mutable std::once_flag opened_;
  mutable std::shared_ptr<const GgufFile> gguf_;
};

ModelFiles::ModelFiles(const fs::path& path, std::vector<Maker> makers)
    : state_(std::make_shared<const State>(path, std::move(makers))) {}

ModelFiles::ModelFiles(std::shared_ptr<const State> state, fs::path inner)
    : state_(std::move(state)), inner_(std::move(inner)) {}

fs::path ModelFiles::path() const { return inner_.empty() ? state_->absolute : state_->absolute / inner_; }

std::string ModelFiles::where() const {
  return (inner_.empty() ? state_->shown : state_->shown / inner_).string();
}

std::string ModelFiles::where(std::string_view name) const {
  if (const Made text = made(name); text.content != nullptr) {
    return state_->shown.string() + ": " + std::string(text.keys);
  }
  return (fs::path(where()) / name).string();
}

ModelFiles::Made ModelFiles::made(std::string_view name) const {
  if (!state_->is_gguf) return {};
  const std::string key = (inner_ / name).lexically_normal().string();
  for (const State::Documents& one : state_->documents) {
    const auto& names = one.maker.names;
    if (std::find(names.begin(), names.end(), key) == names.end()) continue;
    std::call_once(one.once, [&] { one.texts = one.maker.make(*state_->file()); });
    const auto found = one.texts.find(key);
    if (found != one.texts.end()) return {&found->second, one.maker.keys};
  }
  return {};
}

bool ModelFiles::has(std::string_view name) const {
  return made(name).content != nullptr || has_entry(path() / name, where(name));
}

std::string ModelFiles::text(std::string_view name, std::size_t limit) const {
  if (const Made text = made(name); text.content != nullptr) return *text.content;
  return InputFile(path() / name, InputFile::Accept::regular, where(name)).read(limit);
}

ModelFiles ModelFiles::folder(const fs::path& name) const { return {state_, inner_ / name}; }

bool ModelFiles::is_gguf() const { return state_->is_gguf; }

std::shared_ptr<const GgufFile> ModelFiles::gguf() const {
  if (!state_->is_gguf) throw Error(where() + ": expected a GGUF file, got another");
  return state_->file();
}

}  // namespace heed
