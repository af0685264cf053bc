// Requests by libcurl, which is loaded when the first connection is opened.
#include "hub/http.h"

#include <curl/curl.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "core/strings.h"
#include "heed/error.h"
#include "heed/version.h"

namespace heed::hub {

// libcurl, loaded when the first connection is opened. It depends on thirty libraries; linking them would
// delay the start of every command by 5 ms.
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

namespace {

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr)
    throw Error(std::string("libcurl: ") + name + ": not found (install libcurl 7.85 or later)");
}

CurlLibrary load_library() {
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

// Throws Error if it is not installed.
const CurlLibrary& curl_library() {
  static const CurlLibrary library = load_library();
  return library;
}

constexpr long kLeastBytesPerSecond = 1000;  // else the server counts as silent

// Makes a server's text printable on one line, for messages.
std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; }, '?');
  return text;
}

}  // namespace

struct Http::Transfer {
  const Request& request;
  const StopSignal& stop;
  Response response;
  std::size_t header_bytes = 0;
  std::exception_ptr thrown;
  char message[CURL_ERROR_SIZE] = {};

  // C code calls the callbacks: exceptions must not pass through it.
  template <class Action>
  std::size_t guarded(std::size_t bytes, Action action) noexcept {
    try {
      action();
      return bytes;
    } catch (...) {
      thrown = std::current_exception();
      return bytes + 1;  // any number other than `bytes` ends the transfer
    }
  }

  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    const std::string_view line(data, size * count);
    return transfer.guarded(line.size(), [&] { transfer.add_header(line); });
  }

  void add_header(std::string_view line) {
    constexpr std::size_t kMostBytes = 256 << 10;
    header_bytes += line.size();
    if (header_bytes > kMostBytes)
      throw Error(origin_of(request.url) + ": the answer's headers are too long");
    if (line.starts_with("HTTP/")) {  // a proxy's first, then the server's
      response = Response();
      const std::size_t space = line.find(' ');
      if (space != line.npos) response.status = std::atol(std::string(line.substr(space + 1, 3)).c_str());
      return;
    }
    const std::size_t colon = line.find(':');
    if (colon != line.npos)
      response.headers[ascii_lower(line.substr(0, colon))] = std::string(trimmed(line.substr(colon + 1)));
  }

  static std::size_t on_data(char* data, std::size_t size, std::size_t count, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    const std::string_view bytes(data, size * count);
    return transfer.guarded(bytes.size(), [&] { transfer.add_body(bytes); });
  }

  void add_body(std::string_view bytes) {
    const bool good = response.status >= 200 && response.status < 300;
    if (request.on_body && good) return request.on_body(response, bytes);
    constexpr std::size_t kErrorText = 64 << 10;
    if (!good) {  // bodies of error pages may be truncated
      response.body.append(bytes.substr(0, kErrorText - std::min(kErrorText, response.body.size())));
      return;
    }
    if (response.body.size() + bytes.size() > request.limit) {
      throw Error(origin_of(request.url) + ": expected an answer of at most " +
                  std::to_string(request.limit) +
                  " bytes, got a longer one (is HF_ENDPOINT a Hugging Face hub?)");
    }
    response.body.append(bytes);
  }

  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<Transfer*>(self)->stop.is_set() ? 1 : 0;
  }
};

std::string Response::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::string origin_of(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme == url.npos) return ascii_lower(url);
  return ascii_lower(url.substr(0, url.find_first_of("/?#", scheme + 3)));
}

Http::Http(const Settings& settings, const StopSignal& stop)
    : library_(curl_library()), settings_(settings), stop_(stop), handle_(library_.easy_init()) {
  if (handle_ == nullptr) throw Error("libcurl: could not be initialized");
}

Http::~Http() { library_.easy_cleanup(handle_); }

void Http::set_up(const Request& request, Transfer& transfer) {
  library_.easy_reset(handle_);  // keeps open connections
  const auto set = [this](CURLoption option, auto value) {
    const CURLcode code = library_.easy_setopt(handle_, option, value);
    if (code != CURLE_OK)
      throw Error(std::string("libcurl: ") + library_.easy_strerror(code) +
                  " (heed pull needs libcurl 7.85 or later)");
  };
  set(CURLOPT_URL, request.url.c_str());
  const bool plain = settings_.endpoint.starts_with("http://");
  set(CURLOPT_PROTOCOLS_STR, plain ? "http,https" : "https");
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_NOBODY, request.head ? 1L : 0L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_USERAGENT, "heed/" HEED_VERSION);
  set(CURLOPT_SSL_VERIFYPEER, 1L);
  set(CURLOPT_SSL_VERIFYHOST, 2L);
  if (!settings_.certificates.empty()) set(CURLOPT_CAINFO, settings_.certificates.c_str());
  set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(settings_.connect_seconds));
  set(CURLOPT_LOW_SPEED_LIMIT, kLeastBytesPerSecond);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.silence_seconds));
  set(CURLOPT_ERRORBUFFER, transfer.message);
  set(CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
  set(CURLOPT_WRITEFUNCTION, &Transfer::on_data);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(&transfer));
}

Response Http::send(const Request& request) {
  Transfer transfer{request, stop_, {}, 0, nullptr, {}};
  set_up(request, transfer);
  const auto free_list = [this](curl_slist* list) { library_.slist_free_all(list); };
  std::unique_ptr<curl_slist, decltype(free_list)> headers(nullptr, free_list);
  for (const std::string& header : request.headers) {
    curl_slist* longer = library_.slist_append(headers.get(), header.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    (void)headers.release();
    headers.reset(longer);
  }
  library_.easy_setopt(handle_, CURLOPT_HTTPHEADER, headers.get());
  const CURLcode code = library_.easy_perform(handle_);
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  if (stop_.is_set()) throw Canceled();
  if (code != CURLE_OK) fail(code, request, transfer);
  char* redirect = nullptr;
  library_.easy_getinfo(handle_, CURLINFO_REDIRECT_URL, &redirect);
  if (redirect != nullptr) transfer.response.redirect = redirect;
  return std::move(transfer.response);
}

void Http::fail(int code, const Request& request, const Transfer& transfer) const {
  const std::string detail = printable(
      transfer.message[0] != '\0' ? transfer.message : library_.easy_strerror(static_cast<CURLcode>(code)));
  const std::string where = printable(origin_of(request.url)) + ": ";
  const bool by_proxy = code == CURLE_COULDNT_RESOLVE_PROXY || code == CURLE_PROXY ||
                        detail.find("from proxy") != std::string::npos ||
                        detail.find("CONNECT tunnel") != std::string::npos;
  if (by_proxy) {
    throw ConnectionError(
        where + "the proxy failed: " + detail + " (check HTTPS_PROXY, ALL_PROXY and NO_PROXY)", false, true);
  }
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      throw ConnectionError(
          where +
              "not reached: the name could not be resolved (check the network, HTTPS_PROXY and HF_ENDPOINT)",
          true, true);
    case CURLE_COULDNT_CONNECT:
      throw ConnectionError(
          where + "not reached: " + detail + " (check the network, HTTPS_PROXY and HF_ENDPOINT)", true, true);
    case CURLE_OPERATION_TIMEDOUT:
      throw ConnectionError(where + "no answer within " + std::to_string(request.silence_seconds) +
                                " s, or less than a kilobyte a second (check the network; HF_HUB_" +
                                (request.on_body ? "DOWNLOAD" : "ETAG") + "_TIMEOUT sets the limit)",
                            true, transfer.response.status == 0);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      throw ConnectionError(
          where + "the server's certificate is not trusted: " + detail +
              " (install ca-certificates; behind a company's proxy, name its certificate in SSL_CERT_FILE)",
          false, true);
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
      throw ConnectionError(
          where + "expected an https URL, got another one (is HF_ENDPOINT a Hugging Face hub?)", false, true);
    default:
      throw ConnectionError(
          where + "the connection failed: " + detail + " (try again; what was downloaded is kept)",
          code != CURLE_SSL_CONNECT_ERROR, transfer.response.status == 0);
  }
}

}  // namespace heed::hub
