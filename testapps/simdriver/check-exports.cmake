# Every export of the simulated driver has to be a function of the CUDA headers, and the other way round.
#   cmake -DNM=nm -DLIBRARY=libcuda.so.1 -P check-exports.cmake
include(${CMAKE_CURRENT_LIST_DIR}/symbols.cmake)
exports_until(declared 1000000)
list(APPEND declared cuProfilerInitialize cuProfilerStart cuProfilerStop)
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} OUTPUT_VARIABLE table COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL " T [^\n@]+" exported "${table}")
list(TRANSFORM exported REPLACE "^ T " "")
set(strays ${exported})
list(REMOVE_ITEM strays ${declared})
set(missing ${declared})
list(REMOVE_ITEM missing ${exported})
if(strays OR missing)
  # It would pass for built otherwise.
  file(REMOVE ${LIBRARY})
  message(FATAL_ERROR "exports that no header declares: ${strays}\ndeclared and not exported: ${missing}")
endif()
