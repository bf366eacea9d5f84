/* How many threads compute at the same time: affinity mask, control groups of both versions, cores,
 * each from the files of a machine that a test makes. */
#include "base/cpu_room.h"
#include "support/test.h"
#include "support/weights_files.h"

/* CPUs first to last - 1. */
static cpu_set_t cpus(int first, int last) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu = first; cpu < last; cpu++) CPU_SET(cpu, &set);
  return set;
}

static struct ommai_cpu_room room_of(const char *root, cpu_set_t affinity) {
  struct ommai_cpu_room room;
  ommai_cpu_room(root, &affinity, &room);
  return room;
}

static void a_machine_without_files_has_its_affinity(void **state) {
  (void)state;
  char root[TEST_PATH_SIZE];
  test_folder_create(root);
  struct ommai_cpu_room room = room_of(root, cpus(0, 64));
  assert_true(room.cpus == 64 && room.cores == 64 && room.quota == 0 && room.threads == 64);
  assert_int_equal(room_of(root, cpus(3, 5)).threads, 2);
}

static void a_quota_counts_in_whole_cpus(void **state) {
  (void)state;
  char root[TEST_PATH_SIZE];
  test_folder_create(root);
  test_write_at(root, "proc/self/cgroup", "0::/pod\n");
  test_write_at(root, "sys/fs/cgroup/pod/cpu.max", "100000 100000\n");
  struct ommai_cpu_room room = room_of(root, cpus(0, 2));
  assert_true(room.threads == 1 && room.quota == 1 && room.cpus == 2);
  test_write_at(root, "sys/fs/cgroup/pod/cpu.max", "250000 100000\n");
  assert_int_equal(room_of(root, cpus(0, 64)).threads, 2);
  test_write_at(root, "sys/fs/cgroup/pod/cpu.max", "20000 100000\n");
  assert_int_equal(room_of(root, cpus(0, 64)).threads, 1);
  test_write_at(root, "sys/fs/cgroup/pod/cpu.max", "max 100000\n");
  assert_int_equal(room_of(root, cpus(0, 64)).threads, 64);
}

static void the_tightest_group_above_counts(void **state) {
  (void)state;
  char root[TEST_PATH_SIZE];
  test_folder_create(root);
  test_write_at(root, "proc/self/cgroup", "0::/kubepods/pod1/omma\n");
  test_write_at(root, "sys/fs/cgroup/kubepods/pod1/omma/cpu.max", "max 100000\n");
  test_write_at(root, "sys/fs/cgroup/kubepods/pod1/cpu.max", "800000 100000\n");
  test_write_at(root, "sys/fs/cgroup/kubepods/cpu.max", "6000000 100000\n");
  struct ommai_cpu_room room = room_of(root, cpus(0, 64));
  assert_true(room.threads == 8 && room.quota == 8);
  /* In a container the group is named as outside and mounted as the root. */
  test_write_at(root, "proc/self/cgroup", "0::/elsewhere\n");
  test_write_at(root, "sys/fs/cgroup/cpu.max", "300000 100000\n");
  assert_int_equal(room_of(root, cpus(0, 64)).threads, 3);
}

static void version_1_has_other_files(void **state) {
  (void)state;
  char root[TEST_PATH_SIZE];
  test_folder_create(root);
  test_write_at(root, "proc/self/cgroup", "5:cpuset:/a\n4:cpu,cpuacct:/a/b\n3:memory:/a\n");
  test_write_at(root, "sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n");
  test_write_at(root, "sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
  test_write_at(root, "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "200000\n");
  test_write_at(root, "sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "50000\n");
  assert_int_equal(room_of(root, cpus(0, 16)).threads, 4);
  test_write_at(root, "sys/fs/cgroup/cpuset/a/cpuset.effective_cpus", "0-1,8\n");
  struct ommai_cpu_room room = room_of(root, cpus(0, 16));
  assert_true(room.cpus == 3 && room.threads == 3);
}

static void a_cpuset_counts(void **state) {
  (void)state;
  char root[TEST_PATH_SIZE];
  test_folder_create(root);
  test_write_at(root, "proc/self/cgroup", "0::/pod\n");
  test_write_at(root, "sys/fs/cgroup/pod/cpuset.cpus.effective", "2-3,40\n");
  assert_int_equal(room_of(root, cpus(0, 64)).threads, 3);
  assert_int_equal(room_of(root, cpus(0, 3)).threads, 1);
  test_write_at(root, "sys/fs/cgroup/pod/cpuset.cpus.effective", "\n");
  assert_int_equal(room_of(root, cpus(0, 64)).threads, 64);
}

/* Eight CPUs of four cores: N and N + 4 are one. */
static void threads_of_one_core_count_once(void **state) {
  (void)state;
  char root[TEST_PATH_SIZE], file[128], list[32];
  test_folder_create(root);
  for (int cpu = 0; cpu < 8; cpu++) {
    snprintf(file, sizeof file, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    snprintf(list, sizeof list, "%d,%d\n", cpu % 4, cpu % 4 + 4);
    test_write_at(root, file, list);
  }
  struct ommai_cpu_room room = room_of(root, cpus(0, 8));
  assert_true(room.cpus == 8 && room.cores == 4 && room.threads == 4);
  assert_true(CPU_ISSET(0, &room.one_of_each_core) && !CPU_ISSET(4, &room.one_of_each_core));
  room = room_of(root, cpus(3, 8)); /* 3 and 7 are one core */
  assert_true(room.cpus == 5 && room.cores == 4);
  assert_int_equal(room_of(root, cpus(4, 8)).cores, 4);
}

static void write_cache(const char *root, int cpu, int index, const char *level, const char *size, const char *shared) {
  const char *const names[] = {"level", "size", "shared_cpu_list"}, *const values[] = {level, size, shared};
  for (int i = 0; i < 3; i++) {
    char file[128];
    snprintf(file, sizeof file, "sys/devices/system/cpu/cpu%d/cache/index%d/%s", cpu, index, names[i]);
    test_write_at(root, file, values[i]);
  }
}

/* Eight CPUs: four share 32 MiB, four others too; what the last level is, its number says. */
static void caches_are_those_of_the_cpus(void **state) {
  (void)state;
  char root[TEST_PATH_SIZE];
  test_folder_create(root);
  assert_int_equal(room_of(root, cpus(0, 8)).last_cache_bytes, 0);
  for (int cpu = 0; cpu < 8; cpu++) {
    write_cache(root, cpu, 0, "1\n", "48K\n", cpu < 4 ? "0-3\n" : "4-7\n");
    write_cache(root, cpu, 1, "3\n", "32768K\n", cpu < 4 ? "0-3\n" : "4-7\n");
    write_cache(root, cpu, 2, "2\n", "1024K\n", cpu < 4 ? "0-3\n" : "4-7\n");
  }
  assert_int_equal(room_of(root, cpus(0, 8)).last_cache_bytes, 64 << 20);
  assert_int_equal(room_of(root, cpus(1, 3)).last_cache_bytes, 32 << 20);
  assert_int_equal(room_of(root, cpus(3, 5)).last_cache_bytes, 64 << 20);
  for (int cpu = 0; cpu < 8; cpu++) write_cache(root, cpu, 1, "3\n", "much\n", "0-7\n");
  /* of level 2, which is known */
  assert_int_equal(room_of(root, cpus(0, 8)).last_cache_bytes, 2 << 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_machine_without_files_has_its_affinity),
      cmocka_unit_test(a_quota_counts_in_whole_cpus),
      cmocka_unit_test(the_tightest_group_above_counts),
      cmocka_unit_test(version_1_has_other_files),
      cmocka_unit_test(a_cpuset_counts),
      cmocka_unit_test(threads_of_one_core_count_once),
      cmocka_unit_test(caches_are_those_of_the_cpus),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
