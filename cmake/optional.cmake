# Libraries that are used where they are there. OMMA_WITHOUT names those that are not to be used in any case, so that a build does
# not depend on what else is installed; README.md says what then does not work.
set(OMMA_OPTIONAL_LIBRARIES curl edit gnutls heif hiredis rsvg tiff yaml zmq)
list(JOIN OMMA_OPTIONAL_LIBRARIES ", " OMMA_OPTIONAL_NAMES)
set(OMMA_WITHOUT "" CACHE STRING "Optional libraries to build without, separated by commas: ${OMMA_OPTIONAL_NAMES}; or all")
string(REPLACE "," ";" OMMA_UNUSED "${OMMA_WITHOUT}")
if(OMMA_UNUSED STREQUAL "all")
  set(OMMA_UNUSED ${OMMA_OPTIONAL_LIBRARIES})
endif()
foreach(library IN LISTS OMMA_UNUSED)
  if(NOT library IN_LIST OMMA_OPTIONAL_LIBRARIES)
    message(FATAL_ERROR "OMMA_WITHOUT: no optional library '${library}', expected some of: ${OMMA_OPTIONAL_NAMES}")
  endif()
endforeach()

# omma_find_optional(PREFIX LIBRARY ...): pkg_check_modules(PREFIX ...), which finds nothing where the library is not to be used.
macro(omma_find_optional prefix library)
  if("${library}" IN_LIST OMMA_UNUSED)
    set(${prefix}_FOUND OFF)
  else()
    pkg_check_modules(${prefix} ${ARGN})
  endif()
endmacro()
