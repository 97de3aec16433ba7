// --cert, --key, the authority's flag, and --insecure: how a server and its workers know each other.
#pragma once

#include <string>

#include "cli/computing.h"

namespace CLI {
class App;
}

namespace signvote::cli {

/// Must outlive the command it was added to.
struct TlsFlags {
  std::string authority_flag;  // "--client-ca" or "--ca"
  std::string certificate{};
  std::string key{};
  std::string authority{};
  bool insecure = false;

  /// `whose` certificates the authority signs: "the workers'".
  void add_to(CLI::App& command, const std::string& whose);

  /// Reads and checks the files; none if --insecure is given. Throws ConfigError if neither that nor all of
  /// them are.
  std::optional<TlsFiles> read() const;
};

}  // namespace signvote::cli
