// signvote certs: an authority of one's own, for a first try.

#include <fmt/format.h>

#include "cli/commands.h"
#include "engine/grpc/certificates.h"

namespace signvote::cli {
namespace {

void print_written(const CertsOptions& options, const std::string& name, const std::string& what) {
  fmt::print("{} and {}: {}\n", (options.folder / (name + ".pem")).string(),
             (options.folder / (name + ".key")).string(), what);
}

}  // namespace

int run_certs_new_ca(const CertsOptions& options) {
  make_ca(options.folder, options.ca_days);
  print_written(options, "ca",
                fmt::format("an authority for {} days; keep the key, give the .pem to all", options.ca_days));
  return 0;
}

int run_certs_server(const CertsOptions& options) {
  make_server_certificate(options.folder, options.hosts, options.days);
  print_written(
      options, "server",
      fmt::format("the server's, for {} days, as {}", options.days, fmt::join(options.hosts, ", ")));
  return 0;
}

int run_certs_worker(const CertsOptions& options) {
  for (const std::string& name : options.names) {
    make_worker_certificate(options.folder, name, options.days);
    print_written(options, name, fmt::format("the worker {}'s, for {} days", name, options.days));
  }
  return 0;
}

}  // namespace signvote::cli
