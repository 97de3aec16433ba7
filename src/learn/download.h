// One file from the web, by HTTP or HTTPS, going on where an earlier attempt broke off.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace signvote {

/// Makes `part` the whole file at `url`. What `part` holds already is kept and the rest asked for; it
/// is started anew if the server sends only whole files or if `check`, which throws DataError, finds
/// the result wrong. `say` is told of every tenth of a large file. Throws DataError with the reason;
/// then `part` holds what there is so far, unless that was wrong.
void download(const std::string& url, const std::filesystem::path& part,
              const std::function<void(const std::string&)>& say,
              const std::function<void(const std::filesystem::path&)>& check);

}  // namespace signvote
