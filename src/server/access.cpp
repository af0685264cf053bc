// Tokens and the headers that browsers send.
#include "server/access.h"

#include <algorithm>
#include <random>

namespace heed::server {
namespace {

// Takes as long wherever they differ.
bool same_secret(std::string_view given, std::string_view secret) {
  if (given.size() != secret.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < secret.size(); ++i)
    difference |=
        static_cast<unsigned char>(given[i]) ^ static_cast<unsigned>(static_cast<unsigned char>(secret[i]));
  return difference == 0;
}

// `name:8717` and `[::1]:8717` without the port and the brackets. A tunnel may have another port.
std::string name_of_host(std::string_view host) {
  if (host.starts_with('[')) return std::string(host.substr(1, host.find(']') - 1));
  return std::string(host.substr(0, host.find(':')));
}

}  // namespace

std::string random_token() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 32; ++i) token += "0123456789abcdef"[device() & 15u];
  return token;
}

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

std::string_view parameter_of(std::string_view target, std::string_view name) {
  const std::size_t begin = target.find('?');
  std::string_view query = begin == target.npos ? std::string_view() : target.substr(begin + 1);
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    if (one.size() > name.size() && one.starts_with(name) && one[name.size()] == '=')
      return one.substr(name.size() + 1);
    query.remove_prefix(std::min(query.size(), one.size() + 1));
  }
  return {};
}

std::optional<HttpResponse> refusal(const HttpRequest& request, const std::string& host,
                                    const std::string& token) {
  const std::string name = name_of_host(request.host);
  if (name.empty() || (name != request.local_address && name != "localhost" && name != host))
    return error_response(403, "Host: expected " + request.local_address + ", the address of this server");
  if (request.origin && *request.origin != "http://" + request.host)
    return error_response(403, "Origin: expected a page of this server");
  const bool page = path_of(request.target) == "/";
  const std::string_view given =
      page ? parameter_of(request.target, "token") : std::string_view(request.token);
  if (!same_secret(given, token))
    return error_response(403, page ? "token: missing or wrong (open the address that the server gave)"
                                    : "X-Heed-Token: missing or wrong");
  return std::nullopt;
}

}  // namespace heed::server
