// libcurl, loaded when the first connection is opened: it brings thirty libraries along, and linking them
// would make every command start 5 ms later.
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

/// The library, loaded and initialised by the first call. Throws Error when it is not installed.
const CurlLibrary& curl_library();

}  // namespace heed::hub
