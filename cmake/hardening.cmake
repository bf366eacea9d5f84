# What makes a fault harder to use, in every build that is not for finding faults, where compiler and linker have it. What it cost is in
# docs/speed-log.md. tests/cli/test_hardening.py reads the result.
include(CheckLinkerFlag)
include(CheckPIESupported)
# A program with AddressSanitizer has half a million pointers in descriptions of its code and data: to relocate them, and to copy their
# pages, takes a sixth of a start. Tests start thousands.
if(OMMA_SANITIZE MATCHES address)
  unset(CMAKE_C_LINK_PIE_SUPPORTED CACHE) # of a folder that was made before
  add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
else()
  check_pie_supported()
endif()

if(NOT OMMA_SANITIZE AND NOT OMMA_FUZZ AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  foreach(flag IN ITEMS -fstack-protector-strong -fstack-clash-protection -fcf-protection=full -mbranch-protection=standard)
    string(MAKE_C_IDENTIFIER "OMMA_HAS${flag}" has)
    # clang takes another processor's flag with a warning
    set(CMAKE_REQUIRED_FLAGS -Werror)
    check_c_compiler_flag(${flag} ${has})
    unset(CMAKE_REQUIRED_FLAGS)
    if(${has})
      add_compile_options(${flag})
    endif()
  endforeach()
  # For sources that do without (src/CMakeLists.txt).
  if(OMMA_HAS_fstack_protector_strong)
    list(APPEND OMMA_NO_STACK_GUARDS -fno-stack-protector)
  endif()
  if(OMMA_HAS_fstack_clash_protection)
    list(APPEND OMMA_NO_STACK_GUARDS -fno-stack-clash-protection)
  endif()
  # Distributions set a level of their own.
  if(NOT "${CMAKE_C_FLAGS}" MATCHES "_FORTIFY_SOURCE")
    add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
  endif()
  foreach(word IN ITEMS relro now noexecstack)
    check_linker_flag(C -Wl,-z,${word} OMMA_LINKS_${word})
    if(OMMA_LINKS_${word})
      add_link_options(-Wl,-z,${word})
    endif()
  endforeach()
endif()
