# Builds a stranger's project that uses the library, and runs it.
#   -DMODE=find_package    uses what BUILD, this project's build folder, installs; builds the examples so, too
#   -DMODE=fetch_content   uses the source
# Also: -DSOURCE= the repository, -DWORK= a folder to work in, -DFLAGS= of the compiler, -DTYPE= of the build.
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# build(FOLDER SETTINGS...): builds the project in FOLDER, in the folder of WORK with the same name.
function(build folder)
  cmake_path(GET folder FILENAME name)
  run(${CMAKE_COMMAND} -S ${folder} -B ${WORK}/${name} -G Ninja -DCMAKE_BUILD_TYPE=${TYPE} -DCMAKE_CXX_FLAGS=${FLAGS}
    -DCMAKE_EXPORT_COMPILE_COMMANDS=ON ${ARGN})
  run(${CMAKE_COMMAND} --build ${WORK}/${name})
endfunction()

file(REMOVE_RECURSE ${WORK})
if(MODE STREQUAL find_package)
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
  file(GLOB_RECURSE package_files ${WORK}/prefix/*.cmake)
  foreach(file ${package_files})
    file(STRINGS ${file} needless REGEX "fmt|OpenSSL")
    if(needless)
      message(FATAL_ERROR "${file} asks for a library that users do not need: ${needless}")
    endif()
  endforeach()
  build(${SOURCE}/tests/package -DCMAKE_PREFIX_PATH=${WORK}/prefix)
  build(${SOURCE}/examples -DCMAKE_PREFIX_PATH=${WORK}/prefix)
  # One is enough to see that they work: own_loop takes long under the sanitizers.
  run(${CMAKE_CTEST_COMMAND} --test-dir ${WORK}/examples --output-on-failure --no-tests=error -R example/vote)
else()
  build(${SOURCE}/tests/package -DSIGNVOTE_SOURCE=${SOURCE} -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON
    -DCMAKE_DISABLE_FIND_PACKAGE_OpenSSL=ON -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON)
  file(STRINGS ${WORK}/package/compile_commands.json ours REGEX "/tests/package/main.cpp.*-(Wshadow|ffp-contract)")
  if(ours)
    message(FATAL_ERROR "the library's compiler flags are used for a stranger's file: ${ours}")
  endif()
  file(STRINGS ${WORK}/package/CMakeCache.txt needless REGEX "grpc|TORCH")
  if(needless)
    message(FATAL_ERROR "the library looked for what it does not need: ${needless}")
  endif()
endif()
run(${WORK}/package/stranger)
