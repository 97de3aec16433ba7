// HOST:PORT, as --listen and --connect take it.
#pragma once

#include <string>

namespace signvote {

struct Address {
  std::string host;  // a name, an IPv4 address, or an IPv6 address without its brackets
  int port = 0;

  /// As gRPC expects it.
  std::string text() const;
  /// True if only this machine can reach it: localhost, 127.0.0.0/8 or ::1. The name is not resolved.
  bool loopback() const;
};

/// Throws ConfigError naming `flag`.
Address parse_address(const std::string& text, const std::string& flag);

/// Where a server listens and where a worker connects. Without TLS only loopback addresses are accepted.
/// They throw ConfigError that names --listen or --connect.
Address listen_address(const std::string& text, bool tls);
Address connect_address(const std::string& text, bool tls);

/// Turns gRPC's "ipv4:192.0.2.7:50123" or "ipv6:%5B::1%5D:50123" into HOST:PORT as people write it.
std::string readable_peer(const std::string& peer);

}  // namespace signvote
