# What the sources say of how they are built, and what is left of those that are gone.

# Every source of the folder with one of the suffixes; a new one is noticed by the next build.
function(sources_of result folder)
  list(TRANSFORM ARGN PREPEND ${folder}/*.)
  file(GLOB found CONFIGURE_DEPENDS ${ARGN})
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# The flags of a source's `// build:` comment.
function(marked_flags result source)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  file(STRINGS ${source} mark REGEX "^[/* ]*build: " LIMIT_COUNT 1 LIMIT_INPUT 2000)
  string(REGEX REPLACE "^[/* ]*build: |[*]/.*$" "" mark "${mark}")
  separate_arguments(flags UNIX_COMMAND "${mark}")
  set(${result} ${flags} PARENT_SCOPE)
endfunction()

# Gives each flag to the compiler, to the linker or, behind the objects, to the libraries of a target.
function(add_flags target)
  foreach(flag IN LISTS ARGN)
    if(flag MATCHES "^-[lL]")
      target_link_libraries(${target} PRIVATE ${flag})
    elseif(flag MATCHES "^-(Wl,|rdynamic)")
      target_link_options(${target} PRIVATE ${flag})
    else()
      target_compile_options(${target} PRIVATE ${flag})
    endif()
  endforeach()
endfunction()

# Takes away what is in a folder of target/ and not in the list.
function(keep_only folder pattern)
  file(GLOB there ${folder}/${pattern})
  foreach(path IN LISTS there)
    if(NOT path IN_LIST ARGN AND NOT IS_DIRECTORY ${path})
      file(REMOVE ${path})
    endif()
  endforeach()
endfunction()
