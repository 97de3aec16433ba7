#include "engine/grpc/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>

#include "base/numbers.h"
#include "signvote/error.h"

namespace signvote {

std::string Address::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

bool Address::loopback() const {
  if (host == "localhost") return true;
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

Address parse_address(const std::string& text, const std::string& flag) {
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(
        fmt::format("{} is '{}'; {}: write HOST:PORT, as in localhost:7000 or [::1]:7000", flag, text, why));
  };
  if (text.find("://") != std::string::npos) refuse("it is no web address");
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) refuse("there is no port");
  Address address;
  address.host = text.substr(0, colon);
  address.port = parse_number<int>(text.substr(colon + 1)).value_or(-1);
  if (address.port < 0 || address.port > 65535) refuse("the port must be a number from 0 to 65535");
  std::string& host = address.host;
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  };
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    in6_addr v6{};
    if (::inet_pton(AF_INET6, host.c_str(), &v6) != 1) refuse("there is no IPv6 address in the brackets");
  } else if (host.find(':') != std::string::npos) {
    refuse("an IPv6 address needs brackets");
  } else if (host.empty() || !std::ranges::all_of(host, plain)) {
    refuse("the host is neither a name nor an address");
  }
  return address;
}

Address listen_address(const std::string& text, bool tls) {
  Address address = parse_address(text, "--listen");
  if (!tls && !address.loopback())
    throw ConfigError(fmt::format(
        "--listen is '{}' without TLS; give --cert, --key and --client-ca, or listen on localhost", text));
  return address;
}

Address connect_address(const std::string& text, bool tls) {
  Address address = parse_address(text, "--connect");
  if (address.port == 0) throw ConfigError(fmt::format("--connect is '{}'; give the server's port", text));
  if (!tls && !address.loopback())
    throw ConfigError(fmt::format(
        "--connect is '{}' without TLS; give --cert, --key and --ca, or connect to localhost", text));
  return address;
}

std::string readable_peer(const std::string& peer) {
  std::string text = peer;
  for (const std::string scheme : {"ipv4:", "ipv6:"})
    if (text.starts_with(scheme)) text.erase(0, scheme.size());
  for (const auto& [escaped, bracket] : {std::pair{"%5B", "["}, std::pair{"%5D", "]"}})
    if (const std::size_t at = text.find(escaped); at != std::string::npos) text.replace(at, 3, bracket);
  return text;
}

}  // namespace signvote
