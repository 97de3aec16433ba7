// Downloads one file by HTTP or HTTPS, and continues where an earlier attempt broke off.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace signvote {

/// Makes `part` the whole file at `url`. What `part` holds already is kept, and only the rest is
/// downloaded. The download starts anew if the server sends only whole files, or if `check` finds the
/// result wrong and throws DataError. `say` gets a line for every tenth of a large file. Throws DataError
/// with the reason; `part` then holds what was downloaded so far, unless `check` found it wrong or it has
/// more than `most_bytes`. An https server cannot send us on to http. Its certificate must be of an authority
/// that this machine trusts, or that is in the file $SSL_CERT_FILE.
void download(const std::string& url, const std::filesystem::path& part, std::uintmax_t most_bytes,
              const std::function<void(const std::string&)>& say,
              const std::function<void(const std::filesystem::path&)>& check);

}  // namespace signvote
