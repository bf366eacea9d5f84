# What `cmake --install` puts where: program, libraries, headers, pkg-config and CMake packages, man pages, demo model.
include(CMakePackageConfigHelpers)
if(OMMA_AMX_MODEL)
  install(CODE "message(FATAL_ERROR \"OMMA_AMX_MODEL: this build has a model of AMX in place of its instructions, for tests; it is not installed\")")
  return()
endif()

# Folders too have the same modes whatever the umask of who installs.
set(CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(OMMA_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/ommatidia)

# A umask takes from the modes above: folders that are not there yet are made first, with their modes set.
set(OMMA_NEW_FOLDERS ${CMAKE_INSTALL_LIBDIR} ${CMAKE_INSTALL_LIBDIR}/cmake ${OMMA_CMAKE_DIR} ${CMAKE_INSTALL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_INCLUDEDIR}
  ${CMAKE_INSTALL_INCLUDEDIR}/omma)
if(NOT OMMA_ATTENTION_ONLY)
  list(APPEND OMMA_NEW_FOLDERS ${CMAKE_INSTALL_BINDIR} share ${CMAKE_INSTALL_MANDIR} ${CMAKE_INSTALL_MANDIR}/man1 share/bash-completion
    share/bash-completion/completions share/zsh share/zsh/site-functions share/fish share/fish/vendor_completions.d share/ommatidia share/ommatidia/demo
    share/ommatidia/demo/images share/doc ${CMAKE_INSTALL_DOCDIR}
    ${CMAKE_INSTALL_DOCDIR}/docs ${CMAKE_INSTALL_DOCDIR}/docs/images ${CMAKE_INSTALL_DOCDIR}/docs/models)
endif()
install(CODE "
  foreach(folder ${OMMA_NEW_FOLDERS})
    get_filename_component(path \"\${folder}\" ABSOLUTE BASE_DIR \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
    if(NOT EXISTS \"\${path}\")
      file(MAKE_DIRECTORY \"\${path}\")
      file(CHMOD \"\${path}\" PERMISSIONS ${CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS})
    endif()
  endforeach()")

install(TARGETS omma_attention_static omma_attention_shared
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/omma/attention.h include/omma/host.h include/omma/layout.h include/omma/status.h include/omma/team.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/omma)
# The Python package carries its own copies of the libraries under plain names: wheels hold no links.
install(FILES $<TARGET_FILE:omma_attention_shared> DESTINATION ommatidia RENAME libomma-attention.so COMPONENT python
  EXCLUDE_FROM_ALL)
set(OMMA_PC_FILES libomma-attention.pc)
if(NOT OMMA_ATTENTION_ONLY)
  install(TARGETS omma_static omma_shared omma_service_shared
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES $<TARGET_FILE:omma_shared> DESTINATION ommatidia RENAME libomma.so COMPONENT python EXCLUDE_FROM_ALL)
  install(FILES $<TARGET_FILE:omma_service_shared> DESTINATION ommatidia RENAME libomma-service.so COMPONENT python EXCLUDE_FROM_ALL)
  set(OMMA_PROGRAMS omma)
  if(OMMA_BENCH)
    list(APPEND OMMA_PROGRAMS omma-bench)
  endif()
  install(TARGETS ${OMMA_PROGRAMS} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES include/omma/encoding_store.h include/omma/engine_figures.h include/omma/kv_events.h include/omma/log.h
    include/omma/model.h include/omma/omma.h include/omma/sampling.h include/omma/service.h include/omma/tensor_file.h
    include/omma/tower.h include/omma/vectors.h
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/omma)
  install(FILES docs/omma.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  # Help, errors and the manual name these pages as docs/NAME.md.
  install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN *.md PATTERN *.png PATTERN *.svg)
  # A manual page for each command is written by the program, which must run on the machine that builds it, or under an emulator.
  set(OMMA_COMMANDS chat run serve batch embed rerank read encode preprocess tokenize detokenize plan info verify bench-attention
    bench-encoder bench-decode bench-read bench-scale)
  set(OMMA_MANUAL ${CMAKE_BINARY_DIR}/manual)
  if(NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR)
    foreach(command IN LISTS OMMA_COMMANDS)
      string(REPLACE "bench-" "bench;" words ${command})
      add_custom_command(OUTPUT ${OMMA_MANUAL}/omma-${command}.1 DEPENDS omma VERBATIM
        COMMAND ${CMAKE_COMMAND} -E make_directory ${OMMA_MANUAL}
        COMMAND omma help --man ${words} > ${OMMA_MANUAL}/omma-${command}.1)
      list(APPEND OMMA_PAGES ${OMMA_MANUAL}/omma-${command}.1)
    endforeach()
    if(OMMA_BENCH)
      set(page ${OMMA_MANUAL}/omma-bench-serve.1)
      add_custom_command(OUTPUT ${page} DEPENDS omma-bench VERBATIM
        COMMAND ${CMAKE_COMMAND} -E make_directory ${OMMA_MANUAL}
        COMMAND omma-bench help --man > ${page})
      # By the name of the program, the same page.
      file(WRITE ${OMMA_MANUAL}/omma-bench.1 ".so man1/omma-bench-serve.1\n")
      list(APPEND OMMA_PAGES ${page} ${OMMA_MANUAL}/omma-bench.1)
    endif()
    add_custom_target(omma_manual ALL DEPENDS ${OMMA_PAGES})
    install(FILES ${OMMA_PAGES} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  endif()
  install(FILES src/cli/completion/omma.bash DESTINATION share/bash-completion/completions RENAME omma)
  install(FILES src/cli/completion/omma.zsh DESTINATION share/zsh/site-functions RENAME _omma)
  install(FILES src/cli/completion/omma.fish DESTINATION share/fish/vendor_completions.d)
  # The program looks for it at ../share/ommatidia/demo, seen from its own folder.
  install(DIRECTORY models/demo/ DESTINATION share/ommatidia/demo OPTIONAL)
  # A wheel has the program, its manual pages and the demo model in the same places of the environment.
  # python/native has links, which are followed: a wheel holds none.
  if(SKBUILD)
    get_filename_component(OMMA_DEMO models/demo REALPATH)
    get_filename_component(OMMA_PAGE_OF_ALL docs/omma.1 REALPATH)
    install(TARGETS ${OMMA_PROGRAMS} RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python EXCLUDE_FROM_ALL)
    install(FILES ${OMMA_PAGE_OF_ALL} ${OMMA_PAGES} DESTINATION ${SKBUILD_DATA_DIR}/share/man/man1 COMPONENT python EXCLUDE_FROM_ALL)
    install(DIRECTORY ${OMMA_DEMO}/ DESTINATION ${SKBUILD_DATA_DIR}/share/ommatidia/demo COMPONENT python EXCLUDE_FROM_ALL)
  endif()
  list(APPEND OMMA_PC_FILES libomma.pc libomma-service.pc)
endif()

# The prefix is found from where the .pc file lies, so that an installed tree can be moved as a whole.
foreach(kind IN ITEMS LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${kind}}")
    set(OMMA_PC_${kind} "${CMAKE_INSTALL_${kind}}")
  else()
    set(OMMA_PC_${kind} "\${prefix}/${CMAKE_INSTALL_${kind}}")
  endif()
endforeach()
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(OMMA_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH OMMA_PC_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  set(OMMA_PC_PREFIX "\${pcfiledir}/${OMMA_PC_PREFIX}")
endif()
foreach(file IN LISTS OMMA_PC_FILES)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${file}.in ${CMAKE_BINARY_DIR}/${file} @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${file} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/ommatidia-config.cmake.in ${CMAKE_BINARY_DIR}/ommatidia-config.cmake
  INSTALL_DESTINATION ${OMMA_CMAKE_DIR} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/ommatidia-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/ommatidia-config.cmake ${CMAKE_BINARY_DIR}/ommatidia-config-version.cmake
  DESTINATION ${OMMA_CMAKE_DIR})
