# What signvote sets when it is built as a project of its own. A project that embeds it decides these.
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
# Otherwise CMake reserves space for another RPATH with a ':', which stands for the current folder.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # These let ccache work with the precompiled header, and for all clones of this source on a machine.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
    CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

# Sanitizers hold for everything that is compiled here, also for generated code.
set(SIGNVOTE_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them")
if(SIGNVOTE_SANITIZE)
  add_compile_options(-fsanitize=${SIGNVOTE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SIGNVOTE_SANITIZE})
endif()

enable_testing()
