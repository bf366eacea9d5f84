# The scripted engine, and what of the library the server wants next to it.
set(OMMA_FAKE_ENGINE ${PROJECT_SOURCE_DIR}/tests/server/fake/fake_omma.c)
foreach(source IN ITEMS base/allocator.c base/cgroup.c base/cpu_room.c base/error.c base/file.c base/json.c base/json_large.c base/json_parse.c families/tool_parsers.c)
  list(APPEND OMMA_FAKE_ENGINE ${PROJECT_SOURCE_DIR}/src/${source})
endforeach()
