// HOST:PORT, as --listen and --connect take it.
#pragma once

#include <string>

namespace signvote {

struct Address {
  std::string host;  // a name, an IPv4 address, or an IPv6 address without its brackets
  int port = 0;

  /// As gRPC takes it.
  std::string text() const;
  /// Only this machine can reach it: localhost, 127.0.0.0/8 or ::1, as written and not as resolved.
  bool loopback() const;
};

/// Throws ConfigError naming `flag`.
Address parse_address(const std::string& text, const std::string& flag);

/// Where a server listens and where a worker connects: without TLS, on loopback addresses only. Throw
/// ConfigError naming --listen and --connect.
Address listen_address(const std::string& text, bool tls);
Address connect_address(const std::string& text, bool tls);

/// gRPC's "ipv4:192.0.2.7:50123" and "ipv6:%5B::1%5D:50123" as people write them.
std::string readable_peer(const std::string& peer);

}  // namespace signvote
