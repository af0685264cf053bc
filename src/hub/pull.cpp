// Downloads the files of a model over several connections.
#include "hub/pull.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <set>
#include <thread>

#include "heed/error.h"
#include "heed/io/hub_cache.h"
#include "hub/cache.h"

namespace heed::hub {
namespace {

namespace fs = std::filesystem;

class Pull {
 public:
  Pull(const Settings& settings, const PullOptions& options)
      : settings_(settings), options_(options), conversation_{settings, {options.stop}, {}} {
    conversation_.on_message = [this](const std::string& message) {
      const std::lock_guard<std::mutex> guard(mutex_);
      if (options_.on_message) options_.on_message(message);
    };
  }

  PullResult run() {
    Client client(conversation_);
    repository_ = ask_repository(client, options_.model, options_.revision);
    const std::vector<std::string> chosen = files_to_download(repository_, options_.patterns);
    const Cache cache(settings_.cache, repository_);
    cache.make_folders();
    get(cache, chosen);
    for (const std::string& index : indexes_among(chosen, options_.patterns))
      get(cache, shards_to_download(repository_, options_.patterns, index, cache.file(index)));
    cache.record_revision(options_.revision);
    result_.commit = repository_.commit;
    result_.path = cache.snapshot();
    result_.received = progress_.received;
    std::sort(result_.files.begin(), result_.files.end());
    return std::move(result_);
  }

 private:
  // Requests sizes and hashes first, so that lack of disk space is reported before the download starts.
  void get(const Cache& cache, const std::vector<std::string>& names) {
    std::vector<RemoteFile> files(names.size());
    in_parallel(names.size(), [&](Client& client, std::size_t i) {
      std::error_code error;
      const auto size = fs::file_size(cache.file(names[i]), error);
      // The files of a commit never change: a file that is present needs no request.
      files[i] = error ? ask_file(client, repository_, names[i]) : RemoteFile{names[i], "", size};
    });
    for (const RemoteFile& file : files) {
      result_.files.push_back(file.name);
      result_.bytes += file.size;
      progress_.total += file.size;
      if (file.etag.empty()) progress_.done += file.size;
    }
    progress_.files += files.size();
    std::erase_if(files, [](const RemoteFile& file) { return file.etag.empty(); });
    cache.require_space(files);
    // The largest first, since they take longest. Of files with the same content one is downloaded, the
    // others are links to it.
    std::stable_sort(files.begin(), files.end(),
                     [](const auto& a, const auto& b) { return a.size > b.size; });
    std::set<std::string> etags;
    std::vector<RemoteFile> firsts, copies;
    for (const RemoteFile& file : files) (etags.insert(file.etag).second ? firsts : copies).push_back(file);
    fetch(cache, firsts);
    fetch(cache, copies);
  }

  void fetch(const Cache& cache, const std::vector<RemoteFile>& files) {
    in_parallel(files.size(), [&](Client& client, std::size_t i) {
      download(client, repository_, cache, files[i],
               [this](std::int64_t bytes, std::int64_t received) { count(bytes, received); });
    });
  }

  void count(std::int64_t bytes, std::int64_t received) {
    const std::lock_guard<std::mutex> guard(mutex_);
    progress_.received += static_cast<std::uint64_t>(received);
    progress_.done += static_cast<std::uint64_t>(bytes);
    if (options_.on_progress) options_.on_progress(progress_);
  }

  // Calls `action` for 0 .. count - 1 over several connections. The first failure cancels the others and is
  // thrown.
  template <class Action>
  void in_parallel(std::size_t count, const Action& action) {
    std::atomic<std::size_t> next{0};
    std::exception_ptr failure;
    const auto work = [&] {
      try {
        Client client(conversation_);
        for (std::size_t i; (i = next++) < count && !conversation_.stop.is_set();) action(client, i);
      } catch (...) {
        const std::lock_guard<std::mutex> guard(mutex_);
        if (!failure) failure = std::current_exception();
        conversation_.stop.failed = true;
      }
    };
    std::vector<std::thread> threads;
    const auto connections = std::min<std::size_t>(count, static_cast<std::size_t>(settings_.connections));
    for (std::size_t i = 0; i < connections; ++i) threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
    if (failure) std::rethrow_exception(failure);
    if (conversation_.stop.is_set()) throw Canceled();
  }

  const Settings& settings_;
  const PullOptions& options_;
  Conversation conversation_;
  Repository repository_;
  PullResult result_;
  std::mutex mutex_;
  PullProgress progress_;
};

PullResult pull_offline(const Settings& settings, const PullOptions& options) {
  const bool is_default = options.revision == PullOptions().revision;
  PullResult result;
  result.path = find_snapshot(settings.cache, options.model, is_default ? "" : options.revision);
  if (result.path.empty()) {
    throw Error(options.model + ": not found in " + settings.cache.string() +
                ", and HF_HUB_OFFLINE forbids downloading (unset it, or set it to 0)");
  }
  result.commit = result.path.filename().string();
  for (const auto& entry : fs::recursive_directory_iterator(result.path)) {
    if (!entry.is_regular_file()) continue;
    result.files.push_back(entry.path().lexically_relative(result.path).string());
    result.bytes += entry.file_size();
  }
  std::sort(result.files.begin(), result.files.end());
  return result;
}

}  // namespace

PullResult pull(const Settings& settings, const PullOptions& options) {
  if (!is_repository_name(options.model))
    throw Error("model: expected owner/model, got \"" + quoted_text(options.model) + "\"");
  if (!is_revision(options.revision)) {
    throw Error("revision: expected a branch, a tag or a commit, got \"" + quoted_text(options.revision) +
                "\"");
  }
  return settings.offline ? pull_offline(settings, options) : Pull(settings, options).run();
}

}  // namespace heed::hub
