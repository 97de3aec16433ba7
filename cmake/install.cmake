# The library for other people's projects: find_package(signvote), then signvote::tally, which brings
# the ballots and their bytes. It needs no libtorch.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(library_targets signvote_base signvote_kernels signvote_ballot signvote_tally)
foreach(target ${library_targets})
  string(REPLACE "signvote_" "" exported ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${exported})
endforeach()
install(TARGETS ${library_targets} EXPORT signvote)
install(DIRECTORY include/signvote TYPE INCLUDE)
install(EXPORT signvote NAMESPACE signvote:: FILE signvoteTargets.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/signvote)
configure_package_config_file(cmake/signvoteConfig.cmake.in signvoteConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/signvote)
write_basic_package_version_file(signvoteConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/signvoteConfig.cmake ${CMAKE_BINARY_DIR}/signvoteConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/signvote)
if(SIGNVOTE_TOOL)
  install(TARGETS signvote)
endif()
