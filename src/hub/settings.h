// The environment's settings for the hub, under the names that Python's huggingface_hub uses.
#pragma once

#include <filesystem>
#include <string>

namespace heed::hub {

struct Settings {
  std::string endpoint = "https://huggingface.co";  // without a trailing slash
  std::string token;                                // empty: no token is sent
  std::filesystem::path cache;
  std::string certificates;  // a file of certificate authorities; empty: the system's
  bool offline = false;
  int connect_seconds = 10;   // for opening a connection, and for answers without a file
  int download_seconds = 10;  // longest time without data in a download
  double first_delay = 1;     // seconds before the first retry of a request; doubled each time
  int connections = 4;

  /// Reads HF_ENDPOINT, HF_TOKEN (or the file HF_TOKEN_PATH, default HF_HOME/token; no token if
  /// HF_HUB_DISABLE_IMPLICIT_TOKEN is set), HF_HUB_CACHE, HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE,
  /// HF_HUB_ETAG_TIMEOUT, HF_HUB_DOWNLOAD_TIMEOUT, and for certificates SSL_CERT_FILE, REQUESTS_CA_BUNDLE or
  /// CURL_CA_BUNDLE. Throws Error for invalid values.
  static Settings from_environment();
};

}  // namespace heed::hub
