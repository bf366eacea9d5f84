/* Machines as their /proc and /sys describe them: what is found on each, how many threads follow,
 * and the line that says so. */
#include <stdlib.h>
#include <string.h>

#include "base/cpu_room.h"
#include "support/test.h"
#include "support/weights_files.h"

enum { MAX_NODES = 8, MAX_FILES = 8 };

/* How hardware threads of a core are numbered: none, N and N + 1, or the second half after the
 * first. CPUs from `first_single` on have no second thread. */
enum siblings { NO_FILES, SINGLE, ADJACENT, HALVES };

struct machine {
  const char *name;
  int n_cpus, first_single;
  enum siblings siblings;
  const char *affinity, *online, *slow; /* lists; NULL: all, and files that are not there */
  const char *nodes[MAX_NODES];         /* lists */
  const char *capacities[2];            /* of the first and the second half */
  const char *files[MAX_FILES][2];      /* control groups */
  const char *text;                     /* what is found */
  int first_fast, n_fast;
};

static const struct machine machines[] = {
    {.name = "two EPYC of 96 cores, two threads each",
     .n_cpus = 384,
     .first_single = 384,
     .siblings = HALVES,
     .online = "0-383",
     .nodes = {"0-95,192-287", "96-191,288-383"},
     .files = {{"proc/self/cgroup", "0::/user.slice"}, {"sys/fs/cgroup/user.slice/cpu.max", "max 100000"}},
     .text = "384 CPUs, 192 cores on 2 nodes, no quota; by default 192 threads, one for each core",
     .n_fast = 192},
    {.name = "two Xeon of 56 cores in four clusters each",
     .n_cpus = 224,
     .first_single = 224,
     .siblings = HALVES,
     .online = "0-223",
     .nodes = {"0-13,112-125", "14-27,126-139", "28-41,140-153", "42-55,154-167", "56-69,168-181", "70-83,182-195",
               "84-97,196-209", "98-111,210-223"},
     .text = "224 CPUs, 112 cores on 8 nodes, no quota; by default 112 threads, one for each core",
     .n_fast = 112},
    {.name = "two Xeon whose CPUs are numbered in turn, bound to the second",
     .n_cpus = 16,
     .siblings = SINGLE,
     .affinity = "1,3,5,7,9,11,13,15",
     .nodes = {"0,2,4,6,8,10,12,14", "1,3,5,7,9,11,13,15"},
     .text = "8 CPUs, 8 cores, no quota; by default 8 threads, one for each CPU",
     .first_fast = 1,
     .n_fast = 8},
    {.name = "Alder Lake: eight cores of two threads, eight of one",
     .n_cpus = 24,
     .first_single = 16,
     .siblings = ADJACENT,
     .online = "0-23",
     .slow = "16-23",
     .nodes = {"0-23"},
     .text = "24 CPUs, 16 cores (8 of the fast kind), no quota; by default 16 threads, one for each core",
     .n_fast = 8},
    {.name = "big and little ARM cores",
     .n_cpus = 8,
     .siblings = SINGLE,
     .capacities = {"446", "1024"},
     .text = "8 CPUs, 8 cores (4 of the fast kind), no quota; by default 8 threads, one for each CPU",
     .first_fast = 4,
     .n_fast = 4},
    {.name = "Graviton 3",
     .n_cpus = 64,
     .siblings = SINGLE,
     .online = "0-63",
     .nodes = {"0-63"},
     .capacities = {"1024", "1024"},
     .text = "64 CPUs, 64 cores, no quota; by default 64 threads, one for each CPU",
     .n_fast = 64},
    {.name = "four of 64 CPUs' time, by a group above",
     .n_cpus = 64,
     .first_single = 64,
     .siblings = HALVES,
     .nodes = {"0-63"},
     .files = {{"proc/self/cgroup", "0::/kubepods.slice/pod1.slice/omma.scope"},
               {"sys/fs/cgroup/kubepods.slice/pod1.slice/omma.scope/cpu.max", "max 100000"},
               {"sys/fs/cgroup/kubepods.slice/pod1.slice/cpu.max", "400000 100000"},
               {"sys/fs/cgroup/kubepods.slice/cpu.max", "6200000 100000"}},
     .text = "64 CPUs, 32 cores, a quota of 4.0; by default 4 threads, as the quota has CPUs",
     .n_fast = 32},
    {.name = "a quota of version 1",
     .n_cpus = 16,
     .siblings = SINGLE,
     .nodes = {"0-15"},
     .files = {{"proc/self/cgroup", "4:cpu,cpuacct:/docker/1"},
               {"sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "250000"},
               {"sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us", "100000"}},
     .text = "16 CPUs, 16 cores, a quota of 2.5; by default 2 threads, as the quota has CPUs",
     .n_fast = 16},
    {.name = "a cpuset and a quota",
     .n_cpus = 64,
     .first_single = 64,
     .siblings = HALVES,
     .nodes = {"0-15,32-47", "16-31,48-63"},
     .files = {{"proc/self/cgroup", "0::/pod"},
               {"sys/fs/cgroup/pod/cpuset.cpus.effective", "12-19,44-51"},
               {"sys/fs/cgroup/pod/cpu.max", "600000 100000"}},
     .text = "16 CPUs, 8 cores on 2 nodes, a quota of 6.0; by default 6 threads, as the quota has CPUs",
     .first_fast = 12,
     .n_fast = 8},
    {.name = "a quota above what a cpuset leaves",
     .n_cpus = 64,
     .siblings = SINGLE,
     .files = {{"proc/self/cgroup", "0::/pod"},
               {"sys/fs/cgroup/pod/cpuset.cpus.effective", "40-43"},
               {"sys/fs/cgroup/pod/cpu.max", "600000 100000"}},
     .text = "4 CPUs, 4 cores, a quota of 6.0; by default 4 threads, one for each CPU",
     .first_fast = 40,
     .n_fast = 4},
    {.name = "CPUs that are offline",
     .n_cpus = 16,
     .siblings = SINGLE,
     .online = "0-3,8-11",
     .nodes = {"0-3,8-11"},
     .text = "8 CPUs, 8 cores, no quota; by default 8 threads, one for each CPU",
     .n_fast = 8},
    {.name = "one CPU",
     .n_cpus = 1,
     .siblings = NO_FILES,
     .online = "0",
     .nodes = {"0"},
     .text = "1 CPU, 1 core, no quota; by default 1 thread, one for each CPU",
     .n_fast = 1},
};

static void write_siblings(const char *root, const struct machine *machine, int cpu) {
  char file[128], list[32];
  int half = machine->n_cpus / 2, first = machine->siblings == ADJACENT ? cpu / 2 * 2 : cpu % half;
  int second = machine->siblings == ADJACENT ? first + 1 : first + half;
  snprintf(file, sizeof file, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
  if (machine->siblings == SINGLE || cpu >= machine->first_single) first = second = cpu;
  snprintf(list, sizeof list, first == second ? "%d\n" : machine->siblings == ADJACENT ? "%d-%d\n" : "%d,%d\n", first, second);
  test_write_at(root, file, list);
}

static void write_machine(const char *root, const struct machine *machine) {
  char file[128], nodes[32] = "";
  int n_nodes = 0;
  for (int cpu = 0; cpu < machine->n_cpus; cpu++) {
    if (machine->siblings != NO_FILES) write_siblings(root, machine, cpu);
    snprintf(file, sizeof file, "sys/devices/system/cpu/cpu%d/cpu_capacity", cpu);
    if (machine->capacities[0]) test_write_at(root, file, machine->capacities[cpu >= machine->n_cpus / 2]);
  }
  for (; n_nodes < MAX_NODES && machine->nodes[n_nodes]; n_nodes++) {
    snprintf(file, sizeof file, "sys/devices/system/node/node%d/cpulist", n_nodes);
    test_write_at(root, file, machine->nodes[n_nodes]);
  }
  snprintf(nodes, sizeof nodes, "0-%d\n", n_nodes - 1);
  if (n_nodes) test_write_at(root, "sys/devices/system/node/online", nodes);
  if (machine->online) test_write_at(root, "sys/devices/system/cpu/online", machine->online);
  if (machine->slow) test_write_at(root, "sys/devices/cpu_atom/cpus", machine->slow);
  for (int i = 0; i < MAX_FILES && machine->files[i][0]; i++) test_write_at(root, machine->files[i][0], machine->files[i][1]);
}

static cpu_set_t affinity_of(const struct machine *machine) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu = 0; cpu < machine->n_cpus && !machine->affinity; cpu++) CPU_SET(cpu, &set);
  for (const char *at = machine->affinity; at; at = strchr(at, ',')) CPU_SET(atoi(at += *at == ','), &set);
  return set;
}

static int first_of(const cpu_set_t *set) {
  int cpu = 0;
  while (cpu < CPU_SETSIZE && !CPU_ISSET(cpu, set)) cpu++;
  return cpu;
}

static void each_machine_is_described(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
    const struct machine *machine = &machines[i];
    char root[TEST_PATH_SIZE], text[OMMAI_CPU_ROOM_TEXT];
    struct ommai_cpu_room room;
    cpu_set_t affinity = affinity_of(machine);
    print_message("%s\n", machine->name);
    test_folder_create(root);
    write_machine(root, machine);
    ommai_cpu_room(root, &affinity, &room);
    assert_string_equal(ommai_cpu_room_describe(&room, text, sizeof text), machine->text);
    assert_int_equal(first_of(&room.one_of_each_fast_core), machine->first_fast);
    assert_int_equal(CPU_COUNT(&room.one_of_each_fast_core), machine->n_fast);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_machine_is_described)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
