# The tests of the operator alone. They need no library, as the operator does: support/bare/ has a small stand-in for cmocka.
add_library(omma_test_support STATIC support/attention_case.c support/attention_levels.c support/guarded.c support/random.c support/test.c)
target_include_directories(omma_test_support PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/support/bare ${CMAKE_CURRENT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(omma_test_support PUBLIC omma_attention_static)

file(GLOB kernel_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernels/*.c)
add_executable(test_kernels ${kernel_sources})
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_attention*.c ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_cpu.c)
foreach(source IN LISTS sources)
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
endforeach()
foreach(source IN LISTS sources ITEMS test_kernels)
  get_filename_component(name ${source} NAME_WE)
  target_link_libraries(${name} PRIVATE omma_test_support)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 1800)
endforeach()
