// Reads requests.
#include "explore/run_request.h"

#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "plot/labels.h"

namespace heed::explore {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostNewTokens = 1024, kMostCandidates = 1000;
constexpr std::size_t kMostChanges = 4096;

[[noreturn]] void refuse_value(const std::string& where, const std::string& expected) {
  throw Error(where + ": expected " + expected);
}

std::string text_in(const json& value, const std::string& where) {
  if (!value.is_string()) refuse_value(where, "a string");
  return value.get<std::string>();
}

std::int64_t whole_in(const json& value, const std::string& where, std::int64_t least, std::int64_t most) {
  const std::string expected = "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  if (!value.is_number_integer()) refuse_value(where, expected);
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) refuse_value(where, expected);
  const auto number = value.get<std::int64_t>();
  if (number < least || number > most) refuse_value(where, expected + ", got " + std::to_string(number));
  return number;
}

std::vector<std::int64_t> ids_in(const json& value, const std::string& where) {
  if (!value.is_array()) refuse_value(where, "a list of token ids");
  std::vector<std::int64_t> ids;
  for (const json& one : value) ids.push_back(whole_in(one, where, 0, INT32_MAX));
  return ids;
}

/// What reads the value of each key; null is as good as no value.
using Readers = std::map<std::string, std::function<void(const json& value, const std::string& where)>>;

void read_object(const json& object, const std::string& where, const Readers& readers) {
  if (!object.is_object()) refuse_value(where.empty() ? "request" : where, "an object");
  for (const auto& [key, value] : object.items()) {
    const std::string name = plot::shorten(plot::visible(key), 40);
    const std::string here = where.empty() ? name : where + "." + name;
    const auto reader = readers.find(key);
    if (reader == readers.end()) {
      std::string known;
      for (const auto& [one, unused] : readers) known += (known.empty() ? "" : ", ") + one;
      refuse_value(here, "a known key (" + known + ")");
    }
    if (!value.is_null()) reader->second(value, here);
  }
}

void add_text_readers(Readers& readers, RequestedText& text) {
  const auto string_to = [](std::optional<std::string>& to) {
    return [&to](const json& value, const std::string& where) { to = text_in(value, where); };
  };
  const auto ids_to = [](std::optional<std::vector<std::int64_t>>& to) {
    return [&to](const json& value, const std::string& where) { to = ids_in(value, where); };
  };
  readers["text"] = string_to(text.text);
  readers["pair"] = string_to(text.pair);
  readers["target"] = string_to(text.target);
  readers["ids"] = ids_to(text.ids);
  readers["target_ids"] = ids_to(text.target_ids);
}

void check_text(const RequestedText& text, const std::string& where) {
  const std::string prefix = where.empty() ? "" : where + ".";
  if (text.text.has_value() == text.ids.has_value())
    refuse_value(prefix + "text", std::string("either text or ids, got ") + (text.text ? "both" : "neither"));
  if (text.target && text.target_ids)
    refuse_value(prefix + "target", "either target or target_ids, got both");
  if (text.pair && text.ids) refuse_value(prefix + "pair", "no pair beside ids, which hold both texts");
}

HeadChange change_in(const json& value, const std::string& where) {
  HeadChange change;
  bool layer = false, head = false, factor = false;
  Readers readers;
  readers["kind"] = [&](const json& v, const std::string& w) { change.kind = text_in(v, w); };
  readers["layer"] = [&](const json& v, const std::string& w) {
    change.layer = whole_in(v, w, 0, INT32_MAX), layer = true;
  };
  readers["head"] = [&](const json& v, const std::string& w) {
    change.head = whole_in(v, w, 0, INT32_MAX), head = true;
  };
  readers["factor"] = [&](const json& v, const std::string& w) {
    if (!v.is_number() || !(std::abs(v.get<double>()) <= 1000))
      refuse_value(w, "a number from -1000 to 1000");
    change.factor = v.get<double>(), factor = true;
  };
  readers["patch"] = [&](const json& v, const std::string& w) {
    RequestedText text;
    Readers inner;
    add_text_readers(inner, text);
    read_object(v, w, inner);
    check_text(text, w);
    change.patch = std::move(text);
  };
  read_object(value, where, readers);
  if (change.kind.empty() || !layer || !head) refuse_value(where, "kind, layer and head");
  if (factor == change.patch.has_value())
    refuse_value(where, std::string("either factor or patch, got ") + (factor ? "both" : "neither"));
  return change;
}

void add_run_readers(Readers& readers, RunRequest& run) {
  add_text_readers(readers, run.text);
  readers["model"] = [&run](const json& v, const std::string& w) {
    run.model = static_cast<std::size_t>(whole_in(v, w, 0, INT32_MAX));
  };
}

json parsed(std::string_view text) {
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    throw Error("request: expected JSON (not at byte " + std::to_string(error.byte) + ")");
  } catch (const json::exception&) {
    throw Error("request: expected JSON with numbers that fit in a double");
  }
}

void check_run(const json& value, const RunRequest& run) {
  if (!value.contains("model") || value["model"].is_null()) refuse_value("model", "the number of a model");
  check_text(run.text, "");
}

}  // namespace

RunRequest parse_run_request(std::string_view text) {
  const json value = parsed(text);
  RunRequest run;
  Readers readers;
  add_run_readers(readers, run);
  readers["max_new_tokens"] = [&](const json& v, const std::string& w) {
    run.max_new_tokens = whole_in(v, w, 1, kMostNewTokens);
  };
  readers["candidates"] = [&](const json& v, const std::string& w) {
    run.candidates = whole_in(v, w, 1, kMostCandidates);
  };
  readers["vectors"] = [&](const json& v, const std::string& w) {
    if (!v.is_boolean()) refuse_value(w, "true or false");
    run.vectors = v.get<bool>();
  };
  readers["changes"] = [&](const json& v, const std::string& w) {
    if (!v.is_array() || v.size() > kMostChanges)
      refuse_value(w, "a list of at most " + std::to_string(kMostChanges) + " changes");
    for (const json& one : v)
      run.changes.push_back(change_in(one, w + "[" + std::to_string(run.changes.size()) + "]"));
  };
  read_object(value, "", readers);
  check_run(value, run);
  return run;
}

AblationRequest parse_ablation_request(std::string_view text) {
  const json value = parsed(text);
  AblationRequest request;
  Readers readers;
  add_run_readers(readers, request.run);
  for (const char* key : {"candidates", "vectors"})  // of the run; they change no logit
    readers[key] = [](const json&, const std::string&) {};
  readers["max_new_tokens"] = [&](const json& v, const std::string& w) {
    request.run.max_new_tokens = whole_in(v, w, 1, kMostNewTokens);
  };
  bool id = false;
  readers["position"] = [&](const json& v, const std::string& w) {
    request.position = whole_in(v, w, 0, INT32_MAX);
  };
  readers["id"] = [&](const json& v, const std::string& w) {
    request.id = whole_in(v, w, 0, INT32_MAX), id = true;
  };
  readers["kind"] = [&](const json& v, const std::string& w) { request.kind = text_in(v, w); };
  readers["layer"] = [&](const json& v, const std::string& w) {
    request.layer = whole_in(v, w, 0, INT32_MAX);
  };
  read_object(value, "", readers);
  check_run(value, request.run);
  if (!id) refuse_value("id", "the token or label whose logit is measured");
  return request;
}

}  // namespace heed::explore
