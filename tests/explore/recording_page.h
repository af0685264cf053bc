// Reads a page with a recording, as its script does.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "core/base64.h"
#include "core/json.h"

namespace heed::explore_test {

/// What the page holds: `models`, `shared`, `answers`.
inline Json recording_in(const std::string& page) {
  const std::string begin = "<script type=\"text/plain\" id=\"recording\">";
  const std::size_t from = page.find(begin) + begin.size();
  const std::string stream = decode_base64(page.substr(from, page.find('<', from) - from)).value();
  std::string text(std::size_t{64} << 20, '\0');
  uLongf size = static_cast<uLong>(text.size());
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(text.data()), &size,
                       reinterpret_cast<const Bytef*>(stream.data()), static_cast<uLong>(stream.size())),
            Z_OK);
  text.resize(size);
  return parse_json(text, "page");
}

/// A value with its references followed.
inline Json whole(const Json& recorded, const Json& value) {
  if (value.is_object() && value.contains("@"))
    return whole(recorded, recorded["shared"][value["@"].get<std::size_t>()]);
  Json all = value;
  if (all.is_structured()) {
    for (Json& part : all) part = whole(recorded, part);
  }
  return all;
}

/// The answers as [path, request, answer, packs].
inline Json answers_in(const std::string& page) {
  const Json recorded = recording_in(page);
  return whole(recorded, recorded["answers"]);
}

}  // namespace heed::explore_test
