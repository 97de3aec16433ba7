# What `cmake --install` puts in its places, and the Debian packages that CPack makes of it (make deb). Its
# components are these packages:
#   development   the library for other people's projects: find_package(signvote), then signvote::signvote, or
#                 pkg-config signvote; and where it was built with gRPC, the component worker, then
#                 signvote::worker, or pkg-config signvote-worker. Public is what lies in include/signvote.
#   program       signvote, its manual pages, completion in shells, a service of systemd
#   python        signvote for Debian's own Python, only in its package: others install the wheel
include(CMakePackageConfigHelpers)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
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

# pkg_config_file(NAME DESCRIPTION LIBRARIES REQUIRES): from its own place, so that the folder may be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE up)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE headers)
function(pkg_config_file name description libraries requires)
  file(CONFIGURE OUTPUT ${name}.pc @ONLY CONTENT [[
prefix=${pcfiledir}/@up@
Name: @name@
Description: @description@ (C++20)
Version: @PROJECT_VERSION@
Requires: @requires@
Cflags: -I${prefix}/@headers@
Libs: -L${pcfiledir}/.. @libraries@
]])
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
pkg_config_file(signvote "${PROJECT_DESCRIPTION}" "-lsignvote_tally -lsignvote_ballot -lsignvote_kernels"
  "libhwy libzstd libxxhash")
if(TARGET signvote_worker)
  pkg_config_file(signvote-worker "A worker of a signvote server"
    "-lsignvote_worker -lsignvote_address -lsignvote_vote_proto -lsignvote_base -pthread" "signvote grpc++ protobuf")
endif()

if(SIGNVOTE_TOOL)
  install(TARGETS signvote COMPONENT program)
  install(TARGETS signvote_compute DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/signvote COMPONENT program)
  set(manual ${CMAKE_BINARY_DIR}/manual)
  install(DIRECTORY ${manual}/man1 TYPE MAN COMPONENT program)
  install(FILES ${manual}/completion/signvote DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    COMPONENT program)
  install(FILES ${manual}/completion/_signvote DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT program)
  install(FILES deploy/signvote-server@.service DESTINATION lib/systemd/system COMPONENT program)
endif()
if(TARGET signvote_python_worker)
  set(python_folder lib/python3/dist-packages/signvote)
  install(TARGETS signvote_python signvote_python_worker DESTINATION ${python_folder} COMPONENT python EXCLUDE_FROM_ALL)
  install(DIRECTORY python/signvote/ DESTINATION ${python_folder} COMPONENT python EXCLUDE_FROM_ALL
    PATTERN __pycache__ EXCLUDE)
endif()
if(SIGNVOTE_TOOL AND PROJECT_IS_TOP_LEVEL)
  include(cmake/packages.cmake)
endif()
