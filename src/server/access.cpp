// Keys, tokens and the headers that browsers send.
#include "server/access.h"

#include <algorithm>
#include <random>

#include "core/strings.h"
#include "server/messages.h"

namespace heed::server {
namespace {

// `name:8717` and `[::1]:8717` without the port and the brackets; empty for what has no such form. A tunnel
// may have another port.
std::string_view name_of_host(std::string_view host) {
  const bool brackets = host.starts_with('[');
  const std::size_t end = brackets ? host.find(']') : std::min(host.find(':'), host.size());
  if (end == host.npos) return {};
  const std::string_view name = host.substr(brackets ? 1 : 0, brackets ? end - 1 : end),
                         port = host.substr(brackets ? end + 1 : end);
  const bool number = port.size() > 1 && port.find_first_not_of("0123456789", 1) == port.npos;
  return port.empty() || (port.front() == ':' && number) ? name : std::string_view();
}

// No browser leaves the header out, or says HTTP/1.0, and no public name leads to `NAME.localhost` or to what
// containers call their host.
bool names_this_server(const HttpRequest& request, const AccessOptions& access) {
  if (request.host.empty()) return request.version == 10;
  const std::string name = ascii_lower(name_of_host(request.host));
  if (name.empty()) return false;
  const auto is_name = [&](const std::string& host) { return name == ascii_lower(host); };
  return name == request.local_address || name == "localhost" || name.ends_with(".localhost") ||
         name == "host.docker.internal" || is_name(access.host) ||
         std::any_of(access.hosts.begin(), access.hosts.end(), is_name);
}

std::string_view secret_in(const HttpRequest& request) {
  constexpr std::string_view kBearer = "bearer ";
  std::string_view given = request.authorization;
  if (ascii_lower(given.substr(0, kBearer.size())) != kBearer) return {};
  given.remove_prefix(kBearer.size());
  return given;
}

}  // namespace

std::string random_token() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 32; ++i) token += kHexDigits[device() & 15u];
  return token;
}

bool same_secret(std::string_view given, std::string_view secret) {
  if (given.size() != secret.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < secret.size(); ++i)
    difference |=
        static_cast<unsigned char>(given[i]) ^ static_cast<unsigned>(static_cast<unsigned char>(secret[i]));
  return difference == 0;
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

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t at) {
      return at < text.size() ? kHexDigits.find(ascii_lower(text[at])) : std::string_view::npos;
    };
    const std::size_t high = digit(i + 1), low = digit(i + 2);
    const bool escaped = text[i] == '%' && high < 16 && low < 16;
    decoded += escaped ? static_cast<char>(high * 16 + low) : text[i];
    if (escaped) i += 2;
  }
  return decoded;
}

bool are_header_names(std::string_view list) {
  constexpr std::size_t kLongest = 4096;
  return !list.empty() && list.size() <= kLongest && std::all_of(list.begin(), list.end(), [](char c) {
    return is_ascii_letter_or_digit(c) ||
           std::string_view("!#$%&'*+-.^_`|~, ").find(c) != std::string_view::npos;
  });
}

bool is_own_page(const HttpRequest& request, const AccessOptions& access) {
  if (*request.origin == "http://" + request.host) return true;
  return access.token.empty() && *request.origin == "https://" + request.host;  // behind a proxy
}

bool is_listed_page(const HttpRequest& request, const AccessOptions& access) {
  return std::any_of(access.origins.begin(), access.origins.end(),
                     [&](const std::string& one) { return one == "*" || one == *request.origin; });
}

const Key* key_of(const HttpRequest& request, const AccessOptions& access) {
  const Key* found = nullptr;  // all are compared, so that the time does not tell which
  for (const Key& key : access.keys) found = same_secret(secret_in(request), key.secret) ? &key : found;
  return found;
}

void require_host(const HttpRequest& request, const AccessOptions& access) {
  if (!access.host.empty() && !names_this_server(request, access))
    throw ApiError(ErrorCode::forbidden, "Host: expected " + request.local_address +
                                             ", the address of this server, or a name that is allowed "
                                             "(heed serve --allow-host NAME)");
}

void require_access(const HttpRequest& request, const AccessOptions& access, bool needs_key) {
  if (request.origin && !is_own_page(request, access) && !is_listed_page(request, access))
    throw ApiError(ErrorCode::forbidden, access.token.empty()
                                             ? "Origin: expected a page of this server (see --cors-origin)"
                                             : "Origin: expected a page of this server");
  if (!needs_key) return;
  if (!access.token.empty() && !same_secret(request.token, access.token))
    throw ApiError(ErrorCode::forbidden, "X-Heed-Token: missing or wrong");
  if (!access.keys.empty() && key_of(request, access) == nullptr)
    throw ApiError(ErrorCode::unauthorized, "Authorization: expected Bearer and the key of this server");
}

}  // namespace heed::server
