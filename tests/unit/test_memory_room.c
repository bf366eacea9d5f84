/* How much memory may still be taken: what the files of a machine and of its control groups
 * give. */
#include <stdlib.h>

#include "base/memory_room.h"
#include "support/test.h"
#include "support/weights_files.h"

#define MEMINFO "MemTotal:       24000000 kB\nMemFree:         1000000 kB\nMemAvailable:    8000000 kB\n"

static void a_machine_without_groups_has_what_meminfo_gives(void **state) {
  (void)state;
  char root[TEST_PATH_SIZE];
  test_folder_create(root);
  assert_int_equal(ommai_memory_room(root), -1);
  test_write_at(root, "proc/meminfo", MEMINFO);
  assert_int_equal(ommai_memory_room(root), INT64_C(8000000) * 1024);
  test_write_at(root, "proc/self/cgroup", "0::/\n");
  assert_int_equal(ommai_memory_room(root), INT64_C(8000000) * 1024);
}

static void the_tightest_group_counts(void **state) {
  (void)state;
  char root[TEST_PATH_SIZE];
  test_folder_create(root);
  test_write_at(root, "proc/meminfo", MEMINFO);
  test_write_at(root, "proc/self/cgroup", "0::/outer/inner\n");
  test_write_at(root, "sys/fs/cgroup/outer/memory.max", "3000000000\n");
  test_write_at(root, "sys/fs/cgroup/outer/memory.current", "1000000000\n");
  test_write_at(root, "sys/fs/cgroup/outer/memory.stat", "anon 5\nactive_file 300000000\ninactive_file 200000000\n");
  test_write_at(root, "sys/fs/cgroup/outer/inner/memory.max", "max\n");
  test_write_at(root, "sys/fs/cgroup/outer/inner/memory.current", "900000000\n");
  assert_int_equal(ommai_memory_room(root), INT64_C(2500000000));
  test_write_at(root, "sys/fs/cgroup/outer/inner/memory.max", "1000000000\n");
  assert_int_equal(ommai_memory_room(root), 100000000);
  test_write_at(root, "sys/fs/cgroup/outer/inner/memory.current", "1100000000\n");
  assert_int_equal(ommai_memory_room(root), 0);
}

static void a_limit_is_a_groups_room_and_the_swap(void **state) {
  (void)state;
  char root[TEST_PATH_SIZE];
  test_folder_create(root);
  test_write_at(root, "proc/meminfo", MEMINFO);
  assert_int_equal(ommai_memory_limit(root), -1);
  test_write_at(root, "proc/self/cgroup", "0::/a\n");
  assert_int_equal(ommai_memory_limit(root), -1);
  test_write_at(root, "sys/fs/cgroup/a/memory.max", "3000000000\n");
  test_write_at(root, "sys/fs/cgroup/a/memory.current", "1000000000\n");
  assert_int_equal(ommai_memory_limit(root), 2000000000);
  test_write_at(root, "proc/meminfo", MEMINFO "SwapFree: 1000 kB\n");
  assert_int_equal(ommai_memory_limit(root), 2000000000 + 1000 * 1024);
}

/* In a container the group is named as outside, and mounted as the root. */
static void a_group_that_is_the_mounts_root_counts(void **state) {
  (void)state;
  char root[TEST_PATH_SIZE];
  test_folder_create(root);
  test_write_at(root, "proc/meminfo", MEMINFO);
  test_write_at(root, "proc/self/cgroup", "0::/system.slice/docker-1234.scope\n");
  test_write_at(root, "sys/fs/cgroup/memory.max", "2000000000\n");
  test_write_at(root, "sys/fs/cgroup/memory.current", "500000000\n");
  assert_int_equal(ommai_memory_room(root), 1500000000);
}

static void groups_of_version_1_count(void **state) {
  (void)state;
  char root[TEST_PATH_SIZE];
  test_folder_create(root);
  test_write_at(root, "proc/meminfo", MEMINFO);
  test_write_at(root, "proc/self/cgroup", "12:cpu,cpuacct:/a\n5:memory:/a\n1:name=systemd:/a\n");
  test_write_at(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  test_write_at(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "5\n");
  assert_int_equal(ommai_memory_room(root), INT64_C(8000000) * 1024);
  test_write_at(root, "sys/fs/cgroup/memory/a/memory.limit_in_bytes", "700000000\n");
  test_write_at(root, "sys/fs/cgroup/memory/a/memory.usage_in_bytes", "400000000\n");
  test_write_at(root, "sys/fs/cgroup/memory/a/memory.stat",
                "inactive_file 7\ntotal_inactive_file 100000000\ntotal_active_file 0\n");
  assert_int_equal(ommai_memory_room(root), 400000000);
}

static void files_without_a_value_are_not_a_limit(void **state) {
  (void)state;
  char root[TEST_PATH_SIZE];
  test_folder_create(root);
  test_write_at(root, "proc/meminfo", MEMINFO);
  test_write_at(root, "proc/self/cgroup", "0::/a\nnonsense\n::\n");
  test_write_at(root, "sys/fs/cgroup/a/memory.max", "");
  test_write_at(root, "sys/fs/cgroup/a/memory.current", "-5\n");
  assert_int_equal(ommai_memory_room(root), INT64_C(8000000) * 1024);
}

static void this_machine_has_a_value(void **state) {
  (void)state;
#ifdef __linux__
  assert_true(ommai_memory_room("") > 0);
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_machine_without_groups_has_what_meminfo_gives),
      cmocka_unit_test(the_tightest_group_counts),
      cmocka_unit_test(a_limit_is_a_groups_room_and_the_swap),
      cmocka_unit_test(a_group_that_is_the_mounts_root_counts),
      cmocka_unit_test(groups_of_version_1_count),
      cmocka_unit_test(files_without_a_value_are_not_a_limit),
      cmocka_unit_test(this_machine_has_a_value),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
