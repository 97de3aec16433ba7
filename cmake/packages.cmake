# The Debian packages: signvote, libsignvote-dev, python3-signvote (see docs/install.md).
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
# Debian wants an address. There is none, and .invalid is what says so.
set(CPACK_PACKAGE_CONTACT "The signvote authors <nobody@signvote.invalid>")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # it would come before the first line of each package's own
set(components program development python)
set(packages signvote libsignvote-dev python3-signvote)
set(CPACK_COMPONENTS_ALL program development)
set(CPACK_STRIP_FILES ON)
foreach(component package IN ZIP_LISTS components packages)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
  install(FILES deploy/copyright DESTINATION share/doc/${package} COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
# OpenBLAS, because libtorch is content with the slow reference BLAS; the rest are programs that it starts.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS libopenblas0-pthread)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "ca-certificates, gnuplot-nox, fonts-dejavu-core, openmpi-bin")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "libsignvote-dev, npm, python3-signvote")
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "training over slow links between unequal machines
Workers send the signs of their gradients, about a bit per parameter, and a
vote that learns whom to trust decides each coordinate: in one process, on a
cluster with MPI, or at a server over TLS.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libhwy-dev, libzstd-dev, libxxhash-dev, pkg-config")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS "libgrpc++-dev, libprotobuf-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "ballots, verdicts and the weighted sign vote, for C++
Headers and static libraries, with files for CMake and pkg-config: the vote,
its bytes, and a worker's session at a server. The last needs gRPC.")

if(TARGET signvote_python_worker)
  list(APPEND CPACK_COMPONENTS_ALL python)
  math(EXPR next_minor "${Python_VERSION_MINOR} + 1")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
    "python3 (>= 3.${Python_VERSION_MINOR}), python3 (<< 3.${next_minor}), python3-numpy")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS python3-torch)
  set(CPACK_COMPONENT_PYTHON_DESCRIPTION "weighted sign votes for NumPy and PyTorch
The library for Python, a worker of a server, and a hook for PyTorch's
DistributedDataParallel.")
endif()
include(CPack)
