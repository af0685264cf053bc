// Keeps answers, and writes them into a page.
#include "explore/recording/recording.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "explore/routes.h"
#include "plot/page_data.h"

namespace heed::explore {
namespace {

/// Values of fewer bytes are not worth a reference.
constexpr std::size_t kLeastShared = 256;
/// Digits of numbers: about those of an f32.
constexpr int kDigits = 7;

void shorten_numbers(Json& value) {
  if (value.is_structured()) {
    for (Json& part : value) shorten_numbers(part);
  } else if (value.is_number_float()) {
    char text[40];
    const double number = value.get<double>();
    const auto end = std::to_chars(text, std::end(text), number, std::chars_format::general, kDigits);
    double rounded = number;
    std::from_chars(text, end.ptr, rounded);
    value = rounded;
  }
}

/// Whether the later of two runs is of the same text, with more or less at its end.
bool is_typed_on(const Json& before, const Json& now) {
  if (!before.contains("text") || !now.contains("text")) return false;
  Json one = before, other = now;
  one["text"] = other["text"] = "";
  const auto& a = before["text"].get_ref<const std::string&>();
  const auto& b = now["text"].get_ref<const std::string&>();
  return one == other && a != b && (a.starts_with(b) || b.starts_with(a));
}

Json chunks_of(const Explorer& explorer, std::int64_t run) {
  Json packs = Json::array();
  while (auto pack = explorer.chunk(run, std::ssize(packs))) packs.push_back(std::move(*pack));
  return packs;
}

}  // namespace

Json Recording::shared(const Json& value) {
  std::string text = value.dump();
  if (text.size() < kLeastShared) return value;
  const auto found = places_.find(text);
  if (found != places_.end()) return {{"@", found->second}};
  Json kept = value;
  if (kept.is_structured()) {
    for (Json& part : kept) part = shared(part);
  }
  const std::size_t place = values_.size();
  bytes_ += kept.dump().size() + 1;
  values_.push_back(std::move(kept));
  places_.emplace(text, place);
  texts_.push_back(std::move(text));
  return {{"@", place}};
}

void Recording::drop_last() {
  const Entry& last = entries_.back();
  for (std::size_t i = last.first_shared; i < texts_.size(); ++i) places_.erase(texts_[i]);
  values_.resize(last.first_shared);
  texts_.resize(last.first_shared);
  bytes_ = last.bytes;
  entries_.pop_back();
}

void Recording::add(std::string_view path, std::string_view request, std::string_view answer,
                    const Explorer& explorer) {
  Json asked = nlohmann::json(parse_json(request, "request"));  // sorts the keys
  asked.erase("show");                                          // the page has all packs
  const auto same = [&](const Entry& one) { return one.path == path && one.request == asked; };
  if (std::any_of(entries_.begin(), entries_.end(), same)) return;
  const bool is_run = path == "/api/run";
  if (is_run && !entries_.empty() && entries_.back().path == path &&
      is_typed_on(entries_.back().request, asked))
    drop_last();
  Json said = parse_json(answer, "answer");
  said.erase("shown");
  shorten_numbers(said);
  Json packs = is_run && said.contains("run") ? chunks_of(explorer, said["run"].get<std::int64_t>()) : Json{};
  Entry& entry = entries_.emplace_back(Entry{std::string(path), asked, {}, bytes_, values_.size()});
  entry.stored = Json::array({path, shared(asked), shared(said), shared(packs)});
  bytes_ += entry.stored.dump().size() + 1;
  if (bytes_ <= limit_) return;
  drop_last();
  ++left_out_;
}

std::string Recording::page(std::string_view models, std::string_view view, std::string_view notes) const {
  Json answers = Json::array();
  for (const Entry& entry : entries_) answers.push_back(entry.stored);
  const Json all{{"models", parse_json(models, "models").at("models")},
                 {"address", view.find('=') == view.npos ? "at=///" + std::string(view) : std::string(view)},
                 {"shared", values_},
                 {"answers", std::move(answers)}};
  return recorded_page(plot::deflated_base64(all.dump()), notes);
}

}  // namespace heed::explore
