/* The CPUs of several engines, on machines of 1 to 8 nodes that a test makes. */
#include "base/cpu_share.h"

#include "support/test.h"
#include "support/weights_files.h"

/* A machine of n_nodes with cores_per_node cores; with `smt` CPU N and N + all cores are one
 * core. */
static struct ommai_cpu_room machine(int n_nodes, int cores_per_node, bool smt, const char *quota) {
  char root[TEST_PATH_SIZE], file[128], list[64];
  int n_cores = n_nodes * cores_per_node, n_cpus = smt ? 2 * n_cores : n_cores;
  struct ommai_cpu_room room;
  cpu_set_t all;
  test_folder_create(root);
  CPU_ZERO(&all);
  for (int cpu = 0; cpu < n_cpus; cpu++) {
    CPU_SET(cpu, &all);
    snprintf(file, sizeof file, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    snprintf(list, sizeof list, smt ? "%d,%d\n" : "%d\n", cpu % n_cores, cpu % n_cores + n_cores);
    test_write_at(root, file, list);
  }
  snprintf(list, sizeof list, "0-%d\n", n_nodes - 1);
  test_write_at(root, "sys/devices/system/node/online", list);
  for (int node = 0; node < n_nodes; node++) {
    int first = node * cores_per_node, last = first + cores_per_node - 1;
    snprintf(file, sizeof file, "sys/devices/system/node/node%d/cpulist", node);
    snprintf(list, sizeof list, smt ? "%d-%d,%d-%d\n" : "%d-%d\n", first, last, first + n_cores, last + n_cores);
    test_write_at(root, file, list);
  }
  if (quota) {
    test_write_at(root, "proc/self/cgroup", "0::/pod\n");
    test_write_at(root, "sys/fs/cgroup/pod/cpu.max", quota);
  }
  ommai_cpu_room(root, &all, &room);
  return room;
}

/* No CPU is in two shares, and each share's CPUs are on one node. */
static void expect_apart(const struct ommai_cpu_room *room, const struct ommai_cpu_shares *shares) {
  cpu_set_t used, both;
  CPU_ZERO(&used);
  for (int i = 0; i < shares->n_engines; i++) {
    int n_nodes = 0;
    CPU_AND(&both, &used, &shares->of[i].cpus);
    assert_int_equal(CPU_COUNT(&both), 0);
    CPU_OR(&used, &used, &shares->of[i].cpus);
    for (int node = 0; node < room->nodes; node++) {
      CPU_AND(&both, &room->node_cpus[node], &shares->of[i].cpus);
      n_nodes += CPU_COUNT(&both) > 0;
    }
    assert_int_equal(n_nodes, 1);
  }
}

static void auto_is_an_engine_for_each_node(void **state) {
  static const int counts[] = {1, 2, 4, 8};
  (void)state;
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    struct ommai_cpu_room room = machine(counts[i], 12, true, NULL);
    struct ommai_cpu_shares shares;
    assert_int_equal(room.nodes, counts[i]);
    ommai_cpu_shares(&room, 0, 0, &shares);
    assert_true(shares.n_engines == counts[i] && shares.n_places == counts[i] && shares.most_of_place == 1);
    assert_int_equal(shares.threads, 12);
    expect_apart(&room, &shares);
    for (int e = 0; e < counts[i]; e++) {
      assert_int_equal(shares.of[e].place, e);
      assert_int_equal(CPU_COUNT(&shares.of[e].cpus), 12);
      assert_true(CPU_ISSET(12 * e, &shares.of[e].cpus) && CPU_ISSET(12 * e + 11, &shares.of[e].cpus));
    }
  }
}

static void more_engines_than_nodes_share_them(void **state) {
  (void)state;
  struct ommai_cpu_room room = machine(2, 8, true, NULL);
  struct ommai_cpu_shares shares;
  ommai_cpu_shares(&room, 4, 0, &shares);
  assert_true(shares.n_places == 2 && shares.most_of_place == 2 && shares.threads == 4);
  expect_apart(&room, &shares);
  assert_true(shares.of[0].place == 0 && shares.of[1].place == 0 && shares.of[2].place == 1 && shares.of[3].place == 1);
  cpu_set_t cpus = ommai_cpu_shares_at(&shares, 1);
  assert_true(CPU_COUNT(&cpus) == 8 && CPU_ISSET(8, &cpus) && CPU_ISSET(15, &cpus));
  ommai_cpu_shares(&room, 3, 0, &shares); /* one has a node alone; threads are as the others have */
  assert_true(shares.n_places == 2 && shares.most_of_place == 2 && shares.threads == 4);
  expect_apart(&room, &shares);
}

static void fewer_engines_than_nodes_have_several(void **state) {
  (void)state;
  struct ommai_cpu_room room = machine(4, 6, false, NULL);
  struct ommai_cpu_shares shares;
  ommai_cpu_shares(&room, 2, 0, &shares);
  assert_true(shares.n_places == 2 && shares.most_of_place == 1 && shares.threads == 12);
  assert_true(CPU_COUNT(&shares.of[0].cpus) == 12 && CPU_ISSET(11, &shares.of[0].cpus) && CPU_ISSET(12, &shares.of[1].cpus));
}

static void threads_take_both_halves_of_cores_where_they_are_asked_to(void **state) {
  (void)state;
  struct ommai_cpu_room room = machine(2, 4, true, NULL);
  struct ommai_cpu_shares shares;
  ommai_cpu_shares(&room, 2, 8, &shares);
  assert_int_equal(shares.threads, 8);
  assert_int_equal(CPU_COUNT(&shares.of[1].cpus), 8);
  expect_apart(&room, &shares);
  ommai_cpu_shares(&room, 2, 2, &shares);
  assert_true(shares.threads == 2 && CPU_COUNT(&shares.of[1].cpus) == 4);
}

static void a_quota_is_shared(void **state) {
  (void)state;
  struct ommai_cpu_room room = machine(2, 32, false, "800000 100000\n");
  struct ommai_cpu_shares shares;
  ommai_cpu_shares(&room, 0, 0, &shares);
  assert_int_equal(shares.threads, 4);
  room = machine(1, 2, false, "100000 100000\n");
  ommai_cpu_shares(&room, 2, 0, &shares);
  assert_int_equal(shares.threads, 1);
}

static void engines_without_a_core_of_their_own_share_all(void **state) {
  (void)state;
  struct ommai_cpu_room room = machine(1, 2, false, NULL);
  struct ommai_cpu_shares shares;
  ommai_cpu_shares(&room, OMMAI_MAX_ENGINES, 0, &shares);
  assert_true(shares.n_engines == OMMAI_MAX_ENGINES && shares.n_places == 1 && shares.threads == 1);
  assert_int_equal(CPU_COUNT(&shares.of[63].cpus), 2);
}

static void a_thread_is_bound_and_comes_back(void **state) {
  (void)state;
  cpu_set_t before, now, one;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  cpu_set_t was;
  ommai_cpu_bind(&one, &was);
  assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
  assert_true(CPU_EQUAL(&now, &one) && CPU_EQUAL(&was, &before));
  ommai_cpu_bind(&was, &now);
  assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
  assert_true(CPU_EQUAL(&now, &before));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(auto_is_an_engine_for_each_node),
      cmocka_unit_test(more_engines_than_nodes_share_them),
      cmocka_unit_test(fewer_engines_than_nodes_have_several),
      cmocka_unit_test(threads_take_both_halves_of_cores_where_they_are_asked_to),
      cmocka_unit_test(a_quota_is_shared),
      cmocka_unit_test(engines_without_a_core_of_their_own_share_all),
      cmocka_unit_test(a_thread_is_bound_and_comes_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
