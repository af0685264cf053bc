#include "hub/curl_library.h"

#include <dlfcn.h>

#include "heed/error.h"

namespace heed::hub {
namespace {

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr)
    throw Error(std::string("libcurl: ") + name + ": not found (install libcurl 7.85 or later)");
}

CurlLibrary load() {
  void* library = nullptr;
  // Debian has two builds, which differ in their TLS library.
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr)
    throw Error("libcurl.so.4: not found (heed pull needs it; on Debian: apt install libcurl4)");
  CurlLibrary curl{};
  find(library, "curl_easy_init", curl.easy_init);
  find(library, "curl_easy_setopt", curl.easy_setopt);
  find(library, "curl_easy_perform", curl.easy_perform);
  find(library, "curl_easy_getinfo", curl.easy_getinfo);
  find(library, "curl_easy_reset", curl.easy_reset);
  find(library, "curl_easy_cleanup", curl.easy_cleanup);
  find(library, "curl_easy_strerror", curl.easy_strerror);
  find(library, "curl_slist_append", curl.slist_append);
  find(library, "curl_slist_free_all", curl.slist_free_all);
  decltype(&::curl_global_init) global_init = nullptr;
  find(library, "curl_global_init", global_init);
  if (global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) throw Error("libcurl: could not be initialized");
  return curl;
}

}  // namespace

const CurlLibrary& curl_library() {
  static const CurlLibrary library = load();
  return library;
}

}  // namespace heed::hub
