#include "cli/tls_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "signvote/error.h"

namespace signvote::cli {

void TlsFlags::add_to(CLI::App& command, const std::string& whose) {
  command.add_option("--cert", certificate, "Certificate, PEM")->type_name("FILE");
  command.add_option("--key", key, "Private key of the certificate, PEM")->type_name("FILE");
  command
      .add_option(authority_flag, authority, fmt::format("Authority that signs {} certificates, PEM", whose))
      ->type_name("FILE");
  command.add_flag("--insecure", insecure, "No TLS; only on loopback addresses");
}

Tls TlsFlags::read() const {
  if (insecure) {
    if (!certificate.empty() || !key.empty() || !authority.empty())
      throw ConfigError(fmt::format(
          "--insecure does without --cert, --key and {}; leave one or the other out", authority_flag));
    return {};
  }
  if (certificate.empty() || key.empty() || authority.empty())
    throw ConfigError(
        fmt::format("--cert, --key and {} are needed (signvote certs --help shows how to make them); on a "
                    "loopback address --insecure does without",
                    authority_flag));
  Tls tls{load_key_pair(certificate, key), load_authority(authority), ""};
  namespace fs = std::filesystem;
  if ((fs::status(key).permissions() & fs::perms::others_read) != fs::perms::none)
    tls.warning =
        fmt::format("every user of this machine can read the private key '{0}'; do: chmod 600 '{0}'", key);
  return tls;
}

}  // namespace signvote::cli
