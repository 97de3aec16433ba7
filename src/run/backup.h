// A server's run in one file, taken while the server is at work, and the way back.
//
// A backup is a tar archive of config.toml, metrics.jsonl and the journal's files as they stood at one
// instant between two rounds, with the SHA-256 of each in SHA256SUMS. Any tar and sha256sum can unpack and
// check it.
#pragma once

#include <filesystem>

#include "run/audit.h"

namespace signvote {

/// Writes a backup of the run in a server's --state to `file`. Before the file gets its name it was unpacked
/// again and audited, for which there must be space beside it. Only its owner may read it. Throws DataError,
/// and ConfigError if there is no server's run.
Audit back_up(const std::filesystem::path& state, const std::filesystem::path& file);

/// Unpacks a backup, audits it, and makes it the folder `state`, which must not be there or be empty. Throws
/// DataError, and ConfigError if something is in the folder.
Audit restore(const std::filesystem::path& file, const std::filesystem::path& state);

}  // namespace signvote
