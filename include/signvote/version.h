// The version of the library and of the program, as `signvote --version` prints it. CMakeLists.txt reads
// these lines, so this is the only place where a version is written.
#pragma once

#define SIGNVOTE_VERSION_MAJOR 0
#define SIGNVOTE_VERSION_MINOR 1
#define SIGNVOTE_VERSION_PATCH 0

// "MAJOR.MINOR.PATCH". It takes two macros to put the values of three others into a string.
#define SIGNVOTE_VERSION_TEXT_(major, minor, patch) #major "." #minor "." #patch
#define SIGNVOTE_VERSION_TEXT(major, minor, patch) SIGNVOTE_VERSION_TEXT_(major, minor, patch)
#define SIGNVOTE_VERSION \
  SIGNVOTE_VERSION_TEXT(SIGNVOTE_VERSION_MAJOR, SIGNVOTE_VERSION_MINOR, SIGNVOTE_VERSION_PATCH)
