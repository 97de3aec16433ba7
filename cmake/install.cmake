# The library for other people's projects: find_package(signvote), then signvote::signvote; and where it was
# built with gRPC, find_package(signvote COMPONENTS worker), then signvote::worker. What is public is what
# lies in include/signvote.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/signvote)
install(TARGETS signvote_all signvote_kernels signvote_ballot signvote_tally EXPORT signvote)
if(NOT TARGET signvote_worker)
  set(without_its_library PATTERN worker_session.h EXCLUDE)
endif()
install(DIRECTORY include/signvote TYPE INCLUDE ${without_its_library})
if(TARGET signvote_worker)
  install(TARGETS signvote_worker signvote_address signvote_vote_proto signvote_base EXPORT signvote_worker)
  install(EXPORT signvote_worker NAMESPACE signvote:: FILE signvoteWorkerTargets.cmake DESTINATION ${package_folder})
endif()
install(EXPORT signvote NAMESPACE signvote:: FILE signvoteTargets.cmake DESTINATION ${package_folder})
configure_package_config_file(cmake/signvoteConfig.cmake.in signvoteConfig.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(signvoteConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/signvoteConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/signvoteConfigVersion.cmake
  DESTINATION ${package_folder})
if(SIGNVOTE_TOOL)
  install(TARGETS signvote signvote_compute)
endif()
