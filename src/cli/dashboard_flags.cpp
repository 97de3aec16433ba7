#include "cli/dashboard_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "engine/grpc/address.h"
#include "signvote/error.h"

namespace signvote::cli {

constexpr const char* kDefault = "127.0.0.1:7080";

void DashboardFlags::add_to(CLI::App& command) {
  option = command
               .add_option("--dashboard", address,
                           fmt::format("Show the run in the browser, at this address [{}]", kDefault))
               ->expected(0, 1)
               ->type_name("[HOST:PORT]");
  command.add_option("--dashboard-cert", certificate, "The dashboard's certificate, PEM")->type_name("FILE");
  command.add_option("--dashboard-key", key, "Private key of that certificate, PEM")->type_name("FILE");
}

std::vector<std::string> DashboardFlags::words() const {
  std::vector<std::string> words;
  if (option->count() > 0) words.emplace_back("--dashboard");
  if (!address.empty()) words.push_back(address);
  if (!certificate.empty()) words.insert(words.end(), {"--dashboard-cert", certificate});
  if (!key.empty()) words.insert(words.end(), {"--dashboard-key", key});
  return words;
}

std::optional<DashboardOptions> DashboardFlags::read(const std::filesystem::path& folder,
                                                     const std::optional<TlsFiles>& own) const {
  if (certificate.empty() != key.empty())
    throw ConfigError("--dashboard-cert and --dashboard-key belong together; give both");
  if (option->count() == 0) {
    if (!certificate.empty()) throw ConfigError("--dashboard-cert is for --dashboard; give that as well");
    return std::nullopt;
  }
  const Address where = parse_address(address.empty() ? kDefault : address, "--dashboard");
  DashboardOptions options;
  options.host = where.host;
  options.port = where.port;
  options.loopback = where.loopback();
  options.folder = folder;
  if (certificate.empty() && !options.loopback && !own)
    throw ConfigError(fmt::format(
        "--dashboard is '{}', where others can reach it; give --dashboard-cert and --dashboard-key, or take "
        "a loopback address",
        address));
  if (!certificate.empty() || !options.loopback) {
    const KeyPair keys = certificate.empty() ? own->keys() : load_key_pair(certificate, key);
    options.certificate = keys.certificate;
    options.key = keys.key;
  }
  return options;
}

}  // namespace signvote::cli
