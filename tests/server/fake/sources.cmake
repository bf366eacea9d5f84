# The scripted engine, and what of the library the server wants next to it.
set(OMMA_FAKE_LIBRARY fake_grammar.c fake_omma.c fake_sleep.c fake_vectors.c)
list(TRANSFORM OMMA_FAKE_LIBRARY PREPEND ${PROJECT_SOURCE_DIR}/tests/server/fake/)
list(APPEND OMMA_FAKE_LIBRARY ${PROJECT_SOURCE_DIR}/src/request/max_sim.c)
set(OMMA_FAKE_ENGINE ${OMMA_FAKE_LIBRARY})
foreach(source IN ITEMS base/allocator.c base/cgroup.c base/cpu_room.c base/error.c base/file.c base/json.c base/json_large.c base/json_parse.c base/sized.c families/tool_parsers.c)
  list(APPEND OMMA_FAKE_ENGINE ${PROJECT_SOURCE_DIR}/src/${source})
endforeach()
