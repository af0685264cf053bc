// What a page asked and what it was answered, for a page without a server.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/json.h"
#include "explore/explorer.h"

namespace heed::explore {

/// Views of the page, by their names in its addresses.
inline constexpr const char* kExportedViews[] = {"matrix", "lines", "neurons", "flow",
                                                 "steps",  "why",   "traps",   "all-lines"};

/// Answers of limited size. Texts and values that several answers have are held once.
/// Threads: one at a time.
class Recording {
 public:
  /// `limit`: of the bytes of JSON that are kept. The page compresses them and is smaller, but for its own
  /// script of about 150 kB.
  explicit Recording(std::size_t limit) : limit_(limit) {}

  /// Keeps what `path` answers to `request`, both JSON objects, with numbers of 7 digits; of a run also the
  /// packs of its maps. An answer that does not fit is left out. A request that is already there is not kept
  /// twice. Of a text that is being typed, where nothing else was asked, the last run stays.
  void add(std::string_view path, std::string_view request, std::string_view answer,
           const Explorer& explorer);

  std::size_t bytes() const { return bytes_; }
  /// Answers that did not fit.
  std::size_t left_out() const { return left_out_; }
  bool empty() const { return entries_.empty(); }

  /// The page, with `models` as Explorer::models() gives them, and `notes`, a part of HTML, above what it
  /// shows. It opens on `view`: one of kExportedViews, or what follows the # in an address of the page.
  std::string page(std::string_view models, std::string_view view = "matrix",
                   std::string_view notes = {}) const;

 private:
  struct Entry {
    std::string path;
    Json request;  ///< with sorted keys
    Json stored;   ///< [path, request, answer, packs], with references to shared values
    std::size_t bytes = 0, first_shared = 0;
  };

  /// The value, or `{"@": n}`: the n-th of the shared values.
  Json shared(const Json& value);
  void drop_last();

  std::size_t limit_, bytes_ = 0, left_out_ = 0;
  std::vector<Entry> entries_;
  std::vector<Json> values_;
  std::vector<std::string> texts_;                       // of the values, without references
  std::unordered_map<std::string, std::size_t> places_;  // by text
};

/// Of every model and text: the run with all maps, queries and keys; then, while they fit, of the head that
/// the page opens on, in every kind of attention, and of `head` (KIND.LAYER.HEAD), each mistake of the traps,
/// the steps of every query, and a run without it; the flow for every token, with its effects on the
/// likeliest candidates. The n-th target is that of the n-th text; texts without one get the model's own.
/// Throws Error for a model that reads no text or has no such head, and Canceled once `stop` is true.
void record_texts(Explorer& explorer, Recording& recording, const std::vector<std::string>& texts,
                  const std::vector<std::string>& targets, const std::atomic<bool>& stop,
                  const std::string& head = {});

}  // namespace heed::explore
