# How the targets of this project are made and compiled. The settings belong to our targets and not to
# folders, so that a project that embeds the library keeps its own.

# -ffp-contract=off, because a fused multiply-add would round a step differently from one CPU to the next.
add_library(signvote_flags INTERFACE)
target_compile_features(signvote_flags INTERFACE cxx_std_20)
target_compile_options(signvote_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -ffp-contract=off)
target_include_directories(signvote_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)

# signvote_library(NAME SOURCES...): the target signvote_NAME, which others call signvote::NAME.
function(signvote_library name)
  add_library(signvote_${name} ${ARGN})
  add_library(signvote::${name} ALIAS signvote_${name})
  set_target_properties(signvote_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_compile_features(signvote_${name} PUBLIC cxx_std_20)
  target_include_directories(signvote_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(signvote_${name} PRIVATE $<BUILD_INTERFACE:signvote_flags>)
endfunction()
