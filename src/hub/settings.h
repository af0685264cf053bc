// What the environment says about the hub, by the names that Python's huggingface_hub reads.
#pragma once

#include <filesystem>
#include <string>

namespace heed::hub {

struct Settings {
  std::string endpoint = "https://huggingface.co";  // without a slash at its end
  std::string token;                                // empty: none is sent
  std::filesystem::path cache;
  std::string certificates;  // a file of certificate authorities; empty: the system's
  bool offline = false;
  int connect_seconds = 10;   // until a connection stands, and for answers without a file
  int download_seconds = 10;  // longest silence in a download
  double first_delay = 1;     // seconds before the first repetition of a request; doubled each time
  int connections = 4;

  /// From HF_ENDPOINT, HF_TOKEN (or the file HF_TOKEN_PATH, default HF_HOME/token; none when
  /// HF_HUB_DISABLE_IMPLICIT_TOKEN is set), HF_HUB_CACHE, HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE,
  /// HF_HUB_ETAG_TIMEOUT, HF_HUB_DOWNLOAD_TIMEOUT, and for certificates SSL_CERT_FILE, REQUESTS_CA_BUNDLE or
  /// CURL_CA_BUNDLE. Throws Error for values that cannot be used.
  static Settings from_environment();
};

}  // namespace heed::hub
