# What nvcc builds, with the nvcc of target/cuda.
#
# As commands of our own and not as CMake's language CUDA: each CMake accepts the layouts and versions of nvcc that it knows, and this
# one comes as Python packages.
set(NVCC ${CUDA_DIR}/bin/nvcc)
# Machine code for the cards people have, and PTX so that the driver can serve any other.
set(ARCHITECTURES 75 80 90 100 120 CACHE STRING "The architectures that machine code is made for; the demo names the one of its card")
foreach(arch IN LISTS ARCHITECTURES)
  list(APPEND GENCODE -gencode=arch=compute_${arch},code=sm_${arch})
endforeach()
list(GET ARCHITECTURES 0 first)
list(APPEND GENCODE -gencode=arch=compute_${first},code=compute_${first})
# With line tables, by which a GPU core dump names file and line; the machine code is the same.
set(NVCC_COMPILE ${NVCC} -ccbin ${CMAKE_CXX_COMPILER} -std=c++17 -O2 -lineinfo ${GENCODE}
  -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror,-pthread)
set(NVCC_LINK ${NVCC} -ccbin ${CMAKE_CXX_COMPILER} -L${CUDA_DIR}/lib64)

function(add_fatbin source output)
  nvcc_step(${output} ${source} -fatbin)
endfunction()

# An object of a source, for a program of the name.
function(add_runtime_object result name source)
  cmake_path(GET source STEM LAST_ONLY stem)
  set(object ${CMAKE_BINARY_DIR}/runtime/${name}~${stem}.o)
  nvcc_step(${object} ${source} -I${COMMON} ${ARGN} -c)
  set(${result} ${object} PARENT_SCOPE)
endfunction()

# Links objects to a program with the static or the shared runtime; further arguments are objects and flags.
function(add_runtime_link output kind)
  set(objects ${ARGN})
  list(FILTER objects INCLUDE REGEX "^/.*[.]o$")
  cmake_path(GET output PARENT_PATH folder)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(OUTPUT ${output} DEPENDS ${objects} simulated_driver VERBATIM COMMENT "Linking ${output}"
    COMMAND ${NVCC_LINK} -cudart ${kind} -L$<TARGET_FILE_DIR:simulated_driver> ${ARGN} -Xlinker --as-needed -lcuda -o ${output})
endfunction()

# The .cu programs that measure.
function(add_measuring_runtime_programs)
  sources_of(sources ${CMAKE_CURRENT_SOURCE_DIR}/bench cu)
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM LAST_ONLY name)
    add_runtime_object(object bench ${source})
    add_runtime_link(${TARGET_DIR}/bench/${name} static ${object})
    list(APPEND outputs ${TARGET_DIR}/bench/${name})
  endforeach()
  add_custom_target(runtime_bench ALL DEPENDS ${outputs})
  set(runtime_bench_OUTPUTS ${outputs} PARENT_SCOPE)
endfunction()

function(nvcc_step output source)
  cmake_path(GET output FILENAME name)
  set(depfile ${CMAKE_BINARY_DIR}/deps/${name}.d)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/deps ${CMAKE_BINARY_DIR}/runtime)
  add_custom_command(OUTPUT ${output} DEPENDS ${source} ${NVCC} DEPFILE ${depfile} VERBATIM COMMENT "Compiling ${name}"
    COMMAND ${NVCC_COMPILE} ${ARGN} -MMD -MF ${depfile} ${source} -o ${output})
endfunction()
