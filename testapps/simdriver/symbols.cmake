# Reads symbols.inc, whose rows are SYMBOL(NAME, VERSION, ..., EXPORTED_NAME).

# The exported names of a driver of this version, without cuProfiler*: they stand in a header that is not installed with the others.
function(exports_until result version)
  # A function sees its caller's variables.
  set(names)
  file(STRINGS ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/symbols.inc rows REGEX "^SYMBOL\\(")
  foreach(row IN LISTS rows)
    if(row MATCHES "^SYMBOL\\([^,]*, ([0-9]+), .*, (cu[A-Za-z0-9_]*)\\)$" AND CMAKE_MATCH_1 LESS_EQUAL version)
      list(APPEND names ${CMAKE_MATCH_2})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES names)
  set(${result} ${names} PARENT_SCOPE)
endfunction()
