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

std::optional<TlsFiles> TlsFlags::read() const {
  if (insecure) {
    if (!certificate.empty() || !key.empty() || !authority.empty())
      throw ConfigError(fmt::format(
          "--insecure does without --cert, --key and {}; leave one or the other out", authority_flag));
    return std::nullopt;
  }
  if (certificate.empty() || key.empty() || authority.empty())
    throw ConfigError(
        fmt::format("--cert, --key and {} are needed (signvote certs --help shows how to make them); on a "
                    "loopback address --insecure does without",
                    authority_flag));
  return TlsFiles(certificate, key, authority);
}

}  // namespace signvote::cli
