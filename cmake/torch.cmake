# Debian's TorchConfig.cmake asks for packages that libtorch-dev does not bring (it was built with
# them, users need none), so the library and its headers are looked up directly.
find_path(TORCH_INCLUDE torch/extension.h REQUIRED)
find_path(TORCH_API_INCLUDE torch/torch.h PATH_SUFFIXES torch/csrc/api/include REQUIRED)
find_library(TORCH_LIBRARY torch REQUIRED)
find_library(TORCH_CPU_LIBRARY torch_cpu REQUIRED)
find_library(C10_LIBRARY c10 REQUIRED)

add_library(torch_interface INTERFACE)
target_include_directories(torch_interface SYSTEM INTERFACE ${TORCH_INCLUDE} ${TORCH_API_INCLUDE})
target_link_libraries(torch_interface INTERFACE ${TORCH_LIBRARY} ${TORCH_CPU_LIBRARY} ${C10_LIBRARY})
