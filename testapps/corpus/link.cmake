# Makes hard links to a program: cmake -DPROGRAM=... -DLINKS=file-with-a-path-a-line -P link.cmake
file(STRINGS ${LINKS} links)
foreach(link IN LISTS links)
  file(CREATE_LINK ${PROGRAM} ${link})
endforeach()
