// Makes an authority and the certificates that it signs: all that a server and its workers need to know
// each other. ECDSA on P-256, by OpenSSL. Private keys are readable by their owner only, and nothing is
// overwritten (ConfigError). Certificates are valid from an hour ago, because clocks differ; a negative
// number of days makes one that has expired.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace signvote {

/// FOLDER/ca.pem and .key; makes the folder.
void make_ca(const std::filesystem::path& folder, int days);

/// FOLDER/server.pem and .key, signed by FOLDER's authority, for these host names and addresses.
void make_server_certificate(const std::filesystem::path& folder, const std::vector<std::string>& hosts,
                             int days);

/// FOLDER/NAME.pem and .key, signed by FOLDER's authority. Throws ConfigError if the name is not made of
/// letters, digits, '.', '_', '-', does not begin with a letter or digit, or is "ca" or "server".
void make_worker_certificate(const std::filesystem::path& folder, const std::string& name, int days);

}  // namespace signvote
