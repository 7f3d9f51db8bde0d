# Reads symbols.inc, whose rows are SYMBOL(NAME, VERSION, ..., EXPORTED_NAME).

# The exported names of a driver of this version, without cuProfiler*: they stand in a header that is not installed with the others.
function(exports_until result version)
  file(STRINGS ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/symbols.inc rows REGEX "^SYMBOL\\(")
  foreach(row IN LISTS rows)
    # Two conditions in two ifs: within one, the number would still be that of the row before.
    if(row MATCHES "^SYMBOL\\([^,]*, ([0-9]+), .*, (cu[A-Za-z0-9_]*)\\)$")
      if(CMAKE_MATCH_1 LESS_EQUAL version)
        list(APPEND names ${CMAKE_MATCH_2})
      endif()
    endif()
  endforeach()
  list(REMOVE_DUPLICATES names)
  set(${result} ${names} PARENT_SCOPE)
endfunction()
