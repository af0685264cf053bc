// Settings from the environment, under the names of huggingface_hub.
#include "hub/http.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "core/strings.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/io/hub_cache.h"

namespace heed::hub {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool is_true(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

bool is_printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
}

std::string token() {
  if (is_true(environment("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) return "";
  constexpr std::size_t kLongest = 4096;
  std::string where = "HF_TOKEN", token(trimmed(environment("HF_TOKEN")));
  if (token.empty()) token = trimmed(environment("HUGGING_FACE_HUB_TOKEN"));
  std::error_code error;
  if (token.empty()) {
    const std::string path = path_in_environment("HF_TOKEN_PATH");
    const std::filesystem::path file = path.empty() ? hub_home() / "token" : std::filesystem::path(path);
    if (!std::filesystem::is_regular_file(file, error)) return "";
    where = file.string();
    token = trimmed(read_file(file, kLongest));
  }
  // A line break would start another header.
  if (token.size() > kLongest || !is_printable(token))
    throw Error(where + ": expected a token of letters and digits, got another text (copy it again)");
  return token;
}

std::string endpoint() {
  std::string url(trimmed(environment("HF_ENDPOINT")));
  while (!url.empty() && url.back() == '/') url.pop_back();
  if (url.empty()) return Settings().endpoint;
  const bool known = url.starts_with("https://") || url.starts_with("http://");
  if (!known || !is_printable(url) || url.find_first_of("@?#\\") != url.npos || url.ends_with(":"))
    throw Error("HF_ENDPOINT: expected a URL such as https://huggingface.co, got \"" + url + "\"");
  return url;
}

int seconds(const char* name, int default_value) {
  const std::string text(trimmed(environment(name)));
  if (text.empty()) return default_value;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > 86400)
    throw Error(std::string(name) + ": expected a number of seconds from 1 to 86400, got \"" + text + "\"");
  return value;
}

}  // namespace

Settings Settings::from_environment() {
  Settings settings;
  settings.endpoint = hub::endpoint();
  settings.token = hub::token();
  settings.cache = hub_cache();
  const std::string offline = environment("HF_HUB_OFFLINE");
  settings.offline = is_true(offline.empty() ? environment("TRANSFORMERS_OFFLINE") : offline);
  settings.connect_seconds = seconds("HF_HUB_ETAG_TIMEOUT", settings.connect_seconds);
  settings.download_seconds = seconds("HF_HUB_DOWNLOAD_TIMEOUT", settings.download_seconds);
  for (const char* name : {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}) {
    if (settings.certificates.empty()) settings.certificates = path_in_environment(name);
  }
  return settings;
}

}  // namespace heed::hub
