#include "data/table.h"

#include <algorithm>
#include <utility>

#include "heed/error.h"
#include "heed/text/unicode.h"

namespace heed::data {

Table::Table(std::filesystem::path file, const std::string& format, bool header)
    : lines_(std::move(file)), quoted_(format == "csv"), header_(header) {}

bool Table::next_line() {
  if (!lines_.next(text_)) return false;
  utf8_ = utf8_ && !first_invalid_utf8(text_);
  return true;
}

bool Table::next(std::vector<std::string>& fields) {
  do {
    utf8_ = true;
    fields.clear();
    if (!next_line()) return false;
    line_ = lines_.count();
    if (quoted_) {
      split_quoted(fields);
    } else {
      split_at_tabs(fields);
    }
  } while (std::exchange(header_, false));
  return true;
}

void Table::split_at_tabs(std::vector<std::string>& fields) const {
  for (std::size_t begin = 0, end = 0; begin <= text_.size(); begin = end + 1) {
    end = std::min(text_.find('\t', begin), text_.size());
    fields.push_back(text_.substr(begin, end - begin));
  }
}

void Table::split_quoted(std::vector<std::string>& fields) {
  for (std::size_t at = 0;; ++at) {  // at the beginning of a field
    std::string& field = fields.emplace_back();
    if (at < text_.size() && text_[at] == '"') {
      for (++at;; ++at) {
        while (at == text_.size()) {
          if (!next_line())
            throw Error(where() + ": expected the quote that ends a field, got the end of the file");
          field += '\n';
          at = 0;
        }
        if (text_[at] == '"' && text_[++at] != '"') break;  // text_ ends with a zero
        field += text_[at];
      }
      if (at < text_.size() && text_[at] != ',') {
        throw Error(where() + ": expected a comma after the quote that ends a field, got \"" +
                    text_.substr(at) + "\" (a quote within a field is written twice)");
      }
    } else {
      const std::size_t end = std::min(text_.find(',', at), text_.size());
      field = text_.substr(at, end - at);
      at = end;
    }
    if (at == text_.size()) return;
  }
}

}  // namespace heed::data
