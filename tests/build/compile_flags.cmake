# Fails if any file of this project is compiled without -ffp-contract=off: its floating-point results could
# then differ from one CPU to the next. -DBUILD= is the build folder.
file(STRINGS ${BUILD}/compile_commands.json commands REGEX "\"command\":")
list(LENGTH commands count)
list(FILTER commands EXCLUDE REGEX " -ffp-contract=off ")
if(count EQUAL 0 OR commands)
  message(FATAL_ERROR "of ${count} compiler calls, these lack -ffp-contract=off (use signvote_library, or link "
    "signvote_flags): ${commands}")
endif()
