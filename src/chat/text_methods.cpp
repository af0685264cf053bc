// Methods of Python's str.
#include <algorithm>
#include <set>

#include "chat/functions.h"
#include "chat/letters.h"
#include "core/utf8.h"
#include "heed/text/unicode.h"

namespace heed::chat {
namespace {

using Names = std::initializer_list<const char*>;

const std::string& needed_text(const Value& value, std::string_view method) {
  require_defined(value);
  if (!value.is_text())
    throw TemplateError("expected a string as an argument of " + std::string(method) + ", got " +
                        type_name(value));
  return value.bytes();
}

/// One method of one string.
class TextMethod {
 public:
  TextMethod(Renderer& renderer, const Value& self, std::string_view name, const CallArguments& arguments)
      : renderer_(renderer), text_(self.text()), name_(name), arguments_(arguments) {
    renderer_.budget().scan(text_.size());
  }

  std::optional<Value> run() {
    if (name_ == "strip" || name_ == "lstrip" || name_ == "rstrip") return stripped();
    if (name_ == "split" || name_ == "rsplit") return split();
    if (name_ == "splitlines") return lines();
    if (name_ == "partition" || name_ == "rpartition") return partition();
    if (name_ == "startswith" || name_ == "endswith") return has_end();
    if (name_ == "removeprefix" || name_ == "removesuffix") return without_end();
    if (name_ == "replace") return replaced();
    if (name_ == "join") return joined();
    if (name_ == "find" || name_ == "rfind" || name_ == "index" || name_ == "rindex") return found();
    if (name_ == "count") return counted();
    if (name_ == "ljust" || name_ == "rjust" || name_ == "center" || name_ == "zfill") return padded();
    if (name_ == "format") return renderer_.text(brace_format(renderer_, text_, arguments_));
    if (const auto changed = case_changed()) return renderer_.text(text_.derived(*changed));
    return classified();
  }

 private:
  const std::string& bytes() const { return text_.bytes(); }
  Value part(std::size_t begin, std::size_t end) { return renderer_.text(text_.part(begin, end)); }
  BoundArguments bound(Names names, std::size_t required = 0) const {
    return BoundArguments(arguments_, name_, names, required);
  }

  std::optional<std::string> case_changed() {
    static const std::map<std::string_view, std::string (*)(std::string_view)> kChanges{
        {"upper", upper_case}, {"lower", lower_case},       {"casefold", lower_case},
        {"title", title_case}, {"capitalize", capitalized}, {"swapcase", swapped_case}};
    const auto change = kChanges.find(name_);
    if (change == kChanges.end()) return std::nullopt;
    bound({});
    renderer_.budget().step(text_.size() / 4);  // a call for each character, for some
    return change->second(bytes());
  }

  /// A search from the end may look at each byte of `sought` for each byte of the text.
  void charge_search(const std::string& sought) {
    renderer_.budget().step(text_.size() / 64 * (sought.size() / 64 + 1));
  }

  Value stripped() {
    const BoundArguments given = bound({"chars"});
    std::u32string set;
    const bool spaces = given[0] == nullptr || given[0]->is_none();
    if (!spaces) {
      const std::string& chars = needed_text(*given[0], name_);
      for (std::size_t at = 0; at < chars.size();) set += next_character(chars, at);
      renderer_.budget().step(1 + set.size() * text_.size() / 64);
    }
    const auto strips = [&](char32_t c) { return spaces ? is_space(c) : set.find(c) != set.npos; };
    std::size_t begin = 0, end = text_.size();
    while (name_ != "rstrip" && begin < end) {
      std::size_t next = begin;
      if (!strips(next_character(bytes(), next))) break;
      begin = next;
    }
    while (name_ != "lstrip" && begin < end && strips(character_before(bytes(), end))) {
      --end;
      while (!is_utf8_start(bytes()[end])) --end;
    }
    return part(begin, end);
  }

  /// The spans between separators, or between runs of white space if there is none.
  std::vector<TextSpan> pieces(const std::optional<std::string>& separator, std::int64_t most,
                               bool from_end) {
    std::vector<TextSpan> found;
    if (separator && !from_end) {
      std::size_t begin = 0;
      for (std::size_t at = 0; most != 0 && (at = find_text(bytes(), *separator, begin)) != std::string::npos;
           --most) {
        found.push_back({begin, at});
        begin = at + separator->size();
      }
      found.push_back({begin, text_.size()});
      return found;
    }
    if (separator) {
      charge_search(*separator);
      std::size_t end = text_.size();
      while (most-- != 0 && end >= separator->size()) {
        const std::size_t at = bytes().rfind(*separator, end - separator->size());
        if (at == std::string::npos) break;
        found.push_back({at + separator->size(), end});
        end = at;
      }
      found.push_back({0, end});
      std::reverse(found.begin(), found.end());
      return found;
    }
    return words(most, from_end);
  }

  std::vector<TextSpan> words(std::int64_t most, bool from_end) {
    std::vector<TextSpan> all;
    bool inside = false;
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t begin = at;
      const bool space = is_space(next_character(bytes(), at));
      if (!space && !inside) all.push_back({begin, at});
      if (!space) all.back().end = at;
      inside = !space;
    }
    // What is left after `most` words is one piece, to the end of the text.
    if (most < 0 || all.size() <= static_cast<std::size_t>(most)) return all;
    const std::size_t limit = static_cast<std::size_t>(most) + 1, extra = all.size() - limit;
    if (!from_end) {
      all[limit - 1].end = text_.size();
      all.resize(limit);
    } else {
      all[extra].begin = 0;
      all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(extra));
    }
    return all;
  }

  Value split() {
    const BoundArguments given = bound({"sep", "maxsplit"});
    std::optional<std::string> separator;
    if (given[0] != nullptr && !given[0]->is_none()) separator = needed_text(*given[0], name_);
    if (separator && separator->empty()) throw TemplateError("expected a separator, got an empty string");
    Values parts;
    for (const TextSpan& span : pieces(separator, given.whole(1, -1), name_ == "rsplit"))
      parts.push_back(part(span.begin, span.end));
    return renderer_.list(std::move(parts));
  }

  Value lines() {
    const bool keeps = bound({"keepends"}).truth(0, false);
    Values parts;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t end = at;
      const char32_t c = next_character(bytes(), at);
      const bool breaks =
          (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
      if (!breaks) continue;
      if (c == '\r' && at < text_.size() && bytes()[at] == '\n') ++at;
      parts.push_back(part(begin, keeps ? at : end));
      begin = at;
    }
    if (begin < text_.size()) parts.push_back(part(begin, text_.size()));
    return renderer_.list(std::move(parts));
  }

  Value partition() {
    const std::string& separator = needed_text(*bound({"sep"}, 1)[0], name_);
    if (separator.empty()) throw TemplateError("expected a separator, got an empty string");
    const bool last = name_ == "rpartition";
    if (last) charge_search(separator);
    const std::size_t at = last ? bytes().rfind(separator) : find_text(bytes(), separator);
    Values parts;
    if (at == std::string::npos) {
      parts = {part(0, last ? 0 : text_.size()), part(0, 0), part(last ? 0 : text_.size(), text_.size())};
    } else {
      parts = {part(0, at), part(at, at + separator.size()), part(at + separator.size(), text_.size())};
    }
    return Value::tuple(std::move(parts), &renderer_.budget());
  }

  /// The bytes of the characters start .. end - 1, as arguments `first` and the next one give them; nullopt
  /// if start is past the end of the text.
  std::optional<TextSpan> range(const BoundArguments& given, std::size_t first) const {
    const auto length = static_cast<std::int64_t>(count_characters(bytes()));
    const auto bound_at = [&](std::size_t parameter, std::int64_t otherwise) {
      if (given[parameter] != nullptr && given[parameter]->is_none()) return otherwise;
      const std::int64_t place = given.whole(parameter, otherwise);
      return place < 0 ? std::max<std::int64_t>(0, place + length) : place;
    };
    const std::int64_t start = bound_at(first, 0), end = std::min(bound_at(first + 1, length), length);
    if (start > end) return std::nullopt;
    return TextSpan{character_start(bytes(), static_cast<std::size_t>(start)),
                    character_start(bytes(), static_cast<std::size_t>(end))};
  }

  Value has_end() {
    const BoundArguments given = bound({"prefix", "start", "end"}, 1);
    const auto span = range(given, 1);
    const std::string_view whole =
        span ? std::string_view(bytes()).substr(span->begin, span->end - span->begin) : "";
    const auto has = [&](const Value& value) {
      const std::string& end = needed_text(value, name_);
      return span && (name_ == "startswith" ? whole.starts_with(end) : whole.ends_with(end));
    };
    if (!given[0]->is_tuple()) return Value::boolean(has(*given[0]));
    const Values& ends = given[0]->items();
    return Value::boolean(std::any_of(ends.begin(), ends.end(), has));
  }

  Value without_end() {
    const std::string& end = needed_text(*bound({"prefix"}, 1)[0], name_);
    const bool front = name_ == "removeprefix";
    const bool has = front ? bytes().starts_with(end) : bytes().ends_with(end);
    if (!has) return part(0, text_.size());
    return front ? part(end.size(), text_.size()) : part(0, text_.size() - end.size());
  }

  Value replaced() {
    const BoundArguments given = bound({"old", "new", "count"}, 2);
    needed_text(*given[0], name_);
    needed_text(*given[1], name_);
    CallArguments same;
    same.positional = {*given[0], *given[1]};
    if (given[2] != nullptr) same.positional.push_back(Value::integer(given.whole(2, -1)));
    return renderer_.filter("replace", renderer_.text(text_), same);
  }

  Value joined() {
    const BoundArguments given = bound({"iterable"}, 1);
    MarkedText out;
    bool first = true;
    require_defined(*given[0]);
    for (const Value& element : elements_of(*given[0], renderer_.budget())) {
      needed_text(element, name_);
      renderer_.budget().check(out.size() + text_.size() + element.text().size());
      if (!first) out.append(text_);
      out.append(element.text());
      first = false;
    }
    return renderer_.text(std::move(out));
  }

  Value found() {
    const BoundArguments given = bound({"sub", "start", "end"}, 1);
    const std::string& sought = needed_text(*given[0], name_);
    std::size_t at = std::string::npos;
    if (name_.starts_with('r')) charge_search(sought);
    if (const auto span = range(given, 1)) {
      const std::string_view whole = std::string_view(bytes()).substr(0, span->end);
      if (name_ == "find" || name_ == "index") {
        at = find_text(whole, sought, span->begin);
      } else if (at = whole.rfind(sought); at != std::string::npos && at < span->begin) {
        at = std::string::npos;
      }
    }
    if (at != std::string::npos)
      return Value::integer(count_characters(std::string_view(bytes()).substr(0, at)));
    if (name_ == "index" || name_ == "rindex")
      throw TemplateError("expected a part of the string as the argument of " + std::string(name_) +
                          ", got another");
    return Value::integer(-1);
  }

  Value counted() {
    const BoundArguments given = bound({"sub", "start", "end"}, 1);
    const std::string& sought = needed_text(*given[0], name_);
    const auto span = range(given, 1);
    std::int64_t count = 0;
    if (!span) return Value::integer(0);
    const std::string_view whole = std::string_view(bytes()).substr(0, span->end);
    if (sought.empty()) return Value::integer(count_characters(whole.substr(span->begin)) + 1);
    for (std::size_t at = span->begin; (at = find_text(whole, sought, at)) != whole.npos; at += sought.size())
      ++count;
    return Value::integer(count);
  }

  Value padded() {
    const BoundArguments given = name_ == "zfill" ? bound({"width"}, 1) : bound({"width", "fillchar"}, 1);
    MarkedText fill(name_ == "zfill" ? "0" : " ");
    if (name_ != "zfill" && given[1] != nullptr) {
      if (count_characters(needed_text(*given[1], name_)) != 1)
        throw TemplateError("expected one character to fill with, got another number");
      fill = given[1]->text();
    }
    const std::int64_t missing = given.whole(0, 0) - count_characters(bytes());
    if (missing <= 0) return part(0, text_.size());
    const auto count = static_cast<std::size_t>(missing);
    if (count > (std::size_t{1} << 40)) renderer_.budget().check(std::size_t{1} << 40);
    renderer_.budget().check(count * 4 + text_.size());
    // As str.center() does: the odd one goes to the left where the width is odd too.
    const auto width = static_cast<std::size_t>(given.whole(0, 0));
    const std::size_t left = name_ == "ljust"    ? 0
                             : name_ == "center" ? count / 2 + (count & width & 1)
                                                 : count;
    const bool has_sign = name_ == "zfill" && !bytes().empty() && (bytes()[0] == '-' || bytes()[0] == '+');
    MarkedText out;
    if (has_sign) out.append(text_, 0, 1);
    for (std::size_t i = 0; i < left; ++i) out.append(fill);
    out.append(text_, has_sign ? 1 : 0, text_.size());
    for (std::size_t i = left; i < count; ++i) out.append(fill);
    return renderer_.text(std::move(out));
  }

  /// isdigit() and its like: whether the text has characters, and all are of the kind.
  std::optional<Value> classified() {
    static const std::map<std::string_view, bool (*)(char32_t)> kKinds{
        {"isdigit", is_digit},
        {"isdecimal", is_decimal},
        {"isnumeric", is_numeric},
        {"isalpha", is_alphabetic},
        {"isspace", is_space},
        {"isprintable", is_printable},
        {"isascii", [](char32_t c) { return c < 0x80; }},
        {"isalnum", [](char32_t c) { return is_alphabetic(c) || is_numeric(c); }}};
    if (name_ == "isupper" || name_ == "islower") return has_case();
    const auto kind = kKinds.find(name_);
    if (kind == kKinds.end()) return std::nullopt;
    bound({});
    bool all = !text_.empty() || name_ == "isprintable" || name_ == "isascii";
    for (std::size_t at = 0; all && at < text_.size();) all = kind->second(next_character(bytes(), at));
    return Value::boolean(all);
  }

  Value has_case() {
    bound({});
    bool some = false;
    for (std::size_t at = 0; at < text_.size();) {
      const char32_t c = next_character(bytes(), at);
      const bool wanted = name_ == "isupper" ? is_upper(c) : is_lower(c);
      if (!wanted && (is_upper(c) || is_lower(c) || is_title(c))) return Value::boolean(false);
      some = some || wanted;
    }
    return Value::boolean(some);
  }

  Renderer& renderer_;
  const MarkedText& text_;
  std::string_view name_;
  const CallArguments& arguments_;
};

}  // namespace

bool is_text_method(std::string_view name) {
  static const std::set<std::string_view> kNames{
      "strip",       "lstrip",     "rstrip",   "split",        "rsplit",       "splitlines", "partition",
      "rpartition",  "startswith", "endswith", "removeprefix", "removesuffix", "replace",    "join",
      "find",        "rfind",      "index",    "rindex",       "count",        "ljust",      "rjust",
      "center",      "zfill",      "format",   "upper",        "lower",        "casefold",   "title",
      "capitalize",  "swapcase",   "isdigit",  "isdecimal",    "isnumeric",    "isalpha",    "isspace",
      "isprintable", "isascii",    "isalnum",  "isupper",      "islower"};
  return kNames.contains(name);
}

Value call_text_method(Renderer& renderer, const Value& self, std::string_view name,
                       const CallArguments& arguments) {
  if (auto result = TextMethod(renderer, self, name, arguments).run()) return std::move(*result);
  throw TemplateError("expected a method of strings, got " + std::string(name));
}

}  // namespace heed::chat
