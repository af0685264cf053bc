// libcurl, loaded when the first connection is opened. It depends on thirty libraries; linking them would
// delay the start of every command by 5 ms.
#pragma once

#include <curl/curl.h>

namespace heed::hub {

struct CurlLibrary {
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_setopt) easy_setopt;
  decltype(&::curl_easy_perform) easy_perform;
  decltype(&::curl_easy_getinfo) easy_getinfo;
  decltype(&::curl_easy_reset) easy_reset;
  decltype(&::curl_easy_cleanup) easy_cleanup;
  decltype(&::curl_easy_strerror) easy_strerror;
  decltype(&::curl_slist_append) slist_append;
  decltype(&::curl_slist_free_all) slist_free_all;
};

/// Returns the library, which the first call loads and initializes. Throws Error if it is not installed.
const CurlLibrary& curl_library();

}  // namespace heed::hub
