#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/half.h"
#include "base/json.h"
#include "base/sized.h"
#include "base/team.h"
#include "support/test.h"

static void error_is_one_line_with_prefix(void **state) {
  (void)state;
  struct omma_error error = {0};
  assert_int_equal(ommai_fail_field(&error, OMMA_ERROR_LIMIT, "width", "width %d", 7), OMMA_ERROR_LIMIT);
  ommai_error_prefix(&error, "image %d", 2);
  assert_string_equal(error.message, "image 2: width 7");
  assert_string_equal(error.field, "width");
  assert_int_equal(ommai_fail(NULL, OMMA_ERROR_IO, "nobody listens"), OMMA_ERROR_IO);
  char long_text[2000];
  memset(long_text, 'x', sizeof long_text - 1);
  long_text[sizeof long_text - 1] = '\0';
  ommai_fail(&error, OMMA_ERROR_IO, "%s", long_text);
  assert_int_equal(strlen(error.message), sizeof error.message - 1);
}

/* A struct of three versions of one library. */
struct first {
  size_t struct_size;
  int64_t one;
};
struct second {
  size_t struct_size;
  int64_t one, two;
};
struct third {
  size_t struct_size;
  int64_t one, two, three;
};

static void options_of_other_versions_are_taken_or_refused(void **state) {
  (void)state;
  struct omma_error error = {0};
  struct second taken;
  const struct first old = {.struct_size = sizeof old, .one = 1};
  const struct second same = {.one = 1, .two = 2};
  struct third new = {.struct_size = sizeof new, .one = 1, .two = 2};
  assert_ok(ommai_take_struct(&old, "struct s", &taken, sizeof taken, &error), &error);
  assert_true(taken.one == 1 && taken.two == 0);
  assert_ok(ommai_take_struct(&same, "struct s", &taken, sizeof taken, &error), &error);
  assert_true(taken.one == 1 && taken.two == 2);
  assert_ok(ommai_take_struct(&new, "struct s", &taken, sizeof taken, &error), &error);
  assert_true(taken.one == 1 && taken.two == 2);
  assert_ok(ommai_take_struct(NULL, "struct s", &taken, sizeof taken, &error), &error);
  assert_true(taken.one == 0 && taken.two == 0);
  new.three = 3;
  assert_fails(ommai_take_struct(&new, "struct s", &taken, sizeof taken, &error), OMMA_ERROR_ARGUMENT,
               "struct s: a member after byte 24 is set", &error);
  assert_string_equal(error.field, "struct_size");
  new.struct_size = 3;
  assert_fails(ommai_take_struct(&new, "struct s", &taken, sizeof taken, &error), OMMA_ERROR_ARGUMENT, "expected sizeof",
               &error);
}

static void arena_measures_what_it_places(void **state) {
  (void)state;
  struct ommai_arena arena;
  ommai_arena_measure(&arena);
  assert_null(ommai_arena_take(&arena, 3, 5));
  assert_null(ommai_arena_take(&arena, 1000, 4));
  assert_false(arena.failed);
  size_t size = arena.used;
  void *memory = ommai_allocate(&ommai_default_allocator, size, 1);
  ommai_arena_init(&arena, memory, size);
  char *a = ommai_arena_take(&arena, 3, 5);
  size_t mark = ommai_arena_mark(&arena);
  char *b = ommai_arena_take(&arena, 1000, 4);
  assert_non_null(a);
  assert_non_null(b);
  assert_int_equal((uintptr_t)b % 64, 0);
  memset(a, 1, 15);
  memset(b, 1, 4000);
  assert_null(ommai_arena_take(&arena, 1, 1));
  assert_true(arena.failed);
  ommai_arena_reset(&arena, mark);
  assert_ptr_equal(ommai_arena_take(&arena, 1, 4000), b);
  assert_null(ommai_arena_take(&arena, SIZE_MAX / 2, 4));
  ommai_arena_reset(&arena, 0);
  ommai_release(&ommai_default_allocator, memory, size, 1);
}

static void allocation_refuses_overflow(void **state) {
  (void)state;
  assert_null(ommai_allocate(&ommai_default_allocator, SIZE_MAX, 2));
  assert_null(ommai_allocate(&ommai_default_allocator, SIZE_MAX - 10, 1));
  void *nothing = ommai_allocate(&ommai_default_allocator, 0, 8);
  assert_non_null(nothing);
  ommai_release(&ommai_default_allocator, nothing, 0, 8);
}

/* Every f16 value survives the way to f32 and back; bf16 rounds to the nearest even neighbour. */
static void half_types_round_to_nearest_even(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 65536; bits++) {
    float value = ommai_f16_to_f32((ommai_f16)bits);
    if (isnan(value)) {
      assert_true(isnan(ommai_f16_to_f32(ommai_f16_from_f32(value))));
    } else {
      assert_int_equal(ommai_f16_from_f32(value), bits);
    }
    float wide = ommai_bf16_to_f32((ommai_bf16)bits);
    if (isnan(wide)) {
      assert_true(isnan(ommai_bf16_to_f32(ommai_bf16_from_f32(wide))));
    } else {
      assert_int_equal(ommai_bf16_from_f32(wide), bits);
    }
  }
  assert_int_equal(ommai_bf16_from_f32(ommai_f32_from_bits(0x3f808000u)), 0x3f80);
  assert_int_equal(ommai_bf16_from_f32(ommai_f32_from_bits(0x3f818000u)), 0x3f82);
  assert_int_equal(ommai_f16_from_f32(1.0f + 0x1p-11f), 0x3c00);
  assert_int_equal(ommai_f16_from_f32(1.0f + 3 * 0x1p-11f), 0x3c02);
  assert_int_equal(ommai_f16_from_f32(65520.0f), 0x7c00);
  assert_int_equal(ommai_f16_from_f32(0x1p-25f), 0);
  assert_int_equal(ommai_f16_from_f32(0x1.8p-25f), 1);
}

struct count_context {
  int counts[1000];
  int workers_seen[8];
};

static void count_task(void *context, int64_t task, int worker) {
  struct count_context *count = context;
  count->counts[task]++;
  __atomic_fetch_add(&count->workers_seen[worker], 1, __ATOMIC_SEQ_CST);
}

static void team_runs_each_task_once(void **state) {
  (void)state;
  struct omma_error error;
  for (int n_threads = 1; n_threads <= 5; n_threads += 2) {
    struct ommai_team *team;
    assert_ok(ommai_team_create(n_threads, true, &ommai_default_allocator, &team, &error), &error);
    static struct count_context count;
    count = (struct count_context){0};
    for (int run = 0; run < 200; run++) ommai_team_run(ommai_team_interface(team), run * 5, count_task, &count);
    for (int task = 0; task < 995; task++) assert_int_equal(count.counts[task], 199 - task / 5);
    for (int worker = n_threads; worker < 8; worker++) assert_int_equal(count.workers_seen[worker], 0);
    ommai_team_destroy(team);
  }
  struct ommai_team *team;
  assert_fails(ommai_team_create(0, false, &ommai_default_allocator, &team, &error), OMMA_ERROR_ARGUMENT, "threads", &error);
}

static void large_numbers_keep_their_text(void **state) {
  (void)state;
  static const char text[] =
      "[9223372036854775807,-9223372036854775808,9223372036854775808,-9223372036854775809,1e999,-"
      "123456789012345678901234567890,"
      "\"\\\"18446744073709551615\",1.5]";
  json_error_t reason;
  bool no_memory;
  json_t *list = ommai_json_parse_large(text, sizeof text - 1, 0, false, &reason, &no_memory);
  assert_non_null(list);
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *large = ommai_json_large(json_array_get(list, i));
    assert_int_equal(large != NULL, i >= 2 && i <= 5);
  }
  assert_string_equal(ommai_json_large(json_array_get(list, 3)), "-9223372036854775809");
  char *dumped = json_dumps(list, JSON_COMPACT);
  size_t size = ommai_json_restore(dumped, strlen(dumped));
  assert_int_equal(size, sizeof text - 1);
  assert_memory_equal(dumped, text, size);
  free(dumped);
  json_decref(list);
  static const char halves[] = "[\"\\ud83d\\ude00 \\ud83d \\uDE00 \\ud83d\\ud83d\\ude00 \\\\ud83d\"]";
  assert_null(ommai_json_parse_large(halves, sizeof halves - 1, 0, false, &reason, &no_memory));
  list = ommai_json_parse_large(halves, sizeof halves - 1, 0, true, &reason, &no_memory);
  assert_string_equal(json_string_value(json_array_get(list, 0)),
                      "\xf0\x9f\x98\x80 \xef\xbf\xbd \xef\xbf\xbd \xef\xbf\xbd\xf0\x9f\x98\x80 \\ud83d");
  json_decref(list);
  static const char *const broken[] = {"[18446744073709551615", "[018446744073709551615]", "[\"18446744073709551615]",
                                       "1844674407370955161x5"};
  for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
    assert_null(ommai_json_parse_large(broken[i], strlen(broken[i]), 0, true, &reason, &no_memory));
  }
}

/* A string of the text itself is never taken for a number. */
static void no_text_is_a_large_number(void **state) {
  (void)state;
  static const char text[] =
      "[\"\xef\xb7\x90"
      "12\",\"\\uFdD012\",\"\xef\xb7\x90\",\"\\\\ufdd012\",\"1\\ufdd02\",99999999999999999999,{\"\\ufdd012\":1}]";
  static const char *const values[] = {
      "\xef\xbf\xbd"
      "12",
      "\xef\xbf\xbd"
      "12",
      "\xef\xbf\xbd", "\\ufdd012",
      "1\xef\xb7\x90"
      "2"};
  json_error_t reason;
  bool no_memory;
  json_t *list = ommai_json_parse_large(text, sizeof text - 1, 0, false, &reason, &no_memory);
  assert_non_null(list);
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    assert_true(ommai_json_is_text(json_array_get(list, i)));
    assert_string_equal(json_string_value(json_array_get(list, i)), values[i]);
  }
  assert_false(ommai_json_is_text(json_array_get(list, 5)));
  char *dumped = ommai_json_dump_large(list, JSON_COMPACT);
  assert_non_null(strstr(dumped,
                         ",99999999999999999999,{\"\xef\xbf\xbd"
                         "12\":1}]"));
  free(dumped);
  json_decref(list);
  char unmarked[] =
      "\xef\xb7\x90"
      "12";
  ommai_json_unmark(unmarked, sizeof unmarked - 1);
  assert_string_equal(unmarked,
                      "\xef\xbf\xbd"
                      "12");
}

static void json_messages_name_the_key(void **state) {
  (void)state;
  struct omma_error error;
  json_t *root;
  const char text[] = "{\"a\": 3, \"b\": \"x\", \"c\": [1, 2], \"d\": 2.5, \"e\": 4.0, \"n\": null}";
  assert_ok(ommai_json_load("t.json", text, sizeof text - 1, &root, &error), &error);
  int64_t value = 9, list[4];
  size_t count;
  double number;
  assert_ok(ommai_json_integer(root, "t.json", "a", true, 0, 10, &value, &error), &error);
  assert_int_equal(value, 3);
  assert_ok(ommai_json_integer(root, "t.json", "e", true, 0, 10, &value, &error), &error);
  assert_int_equal(value, 4);
  assert_ok(ommai_json_integer(root, "t.json", "n", false, 0, 10, &value, &error), &error);
  assert_int_equal(value, 4);
  assert_fails(ommai_json_integer(root, "t.json", "a", true, 5, 10, &value, &error), OMMA_ERROR_FORMAT, "5 to 10, found 3",
               &error);
  assert_fails(ommai_json_integer(root, "t.json", "d", true, 0, 10, &value, &error), OMMA_ERROR_FORMAT, "\"d\"", &error);
  assert_fails(ommai_json_integer(root, "t.json", "b", true, 0, 10, &value, &error), OMMA_ERROR_FORMAT, "a string", &error);
  assert_fails(ommai_json_integer(root, "t.json", "z", true, 0, 10, &value, &error), OMMA_ERROR_FORMAT, "missing", &error);
  assert_ok(ommai_json_number(root, "t.json", "d", true, &number, &error), &error);
  assert_ok(ommai_json_integers(root, "t.json", "c", true, 0, 9, list, 4, &count, &error), &error);
  assert_int_equal(count, 2);
  assert_fails(ommai_json_integers(root, "t.json", "c", true, 0, 9, list, 1, &count, &error), OMMA_ERROR_FORMAT, "at most 1",
               &error);
  json_decref(root);
  assert_fails(ommai_json_load("t.json", "{\"a\":1,\"a\":2}", 13, &root, &error), OMMA_ERROR_FORMAT, "duplicate", &error);
  assert_fails(ommai_json_load("t.json", "[]", 2, &root, &error), OMMA_ERROR_FORMAT, "an array", &error);
  assert_fails(ommai_json_load("t.json", "{", 1, &root, &error), OMMA_ERROR_FORMAT, "invalid JSON", &error);
}

/* In a child, which ends where this build checks. */
static void assertions_are_of_builds_that_look_for_faults(void **state) {
  (void)state;
  int status;
  pid_t child = fork();
  if (child == 0) {
    signal(SIGABRT, SIG_DFL);
    close(STDERR_FILENO);
    OMMAI_ASSERT(getpid() == 0);
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
#ifdef OMMA_ASSERTIONS
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#else
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#endif
}

/* In memory of the process's own, what is lost reads as zero. */
static void whole_pages_are_discarded_and_no_others(void **state) {
  (void)state;
  size_t page = (size_t)sysconf(_SC_PAGESIZE), size = 8 * page, begin = page / 2, end = 6 * page + 7;
  unsigned char *memory = ommai_allocate_uninitialised(&ommai_mapped_allocator, size, 1);
  memset(memory, 9, size);
  ommai_discard(memory + begin, end - begin);
  for (size_t i = 0; i < size; i++) assert_int_equal(memory[i], i < page || i >= 6 * page ? 9 : 0);
  memset(memory, 9, size);
  ommai_discard(memory + 1, page + page / 2);
  ommai_discard(memory, 0);
  ommai_discard(NULL, 0);
  for (size_t i = 0; i < size; i++) assert_int_equal(memory[i], 9);
  ommai_release(&ommai_mapped_allocator, memory, size, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(error_is_one_line_with_prefix),
      cmocka_unit_test(arena_measures_what_it_places),
      cmocka_unit_test(allocation_refuses_overflow),
      cmocka_unit_test(half_types_round_to_nearest_even),
      cmocka_unit_test(options_of_other_versions_are_taken_or_refused),
      cmocka_unit_test(team_runs_each_task_once),
      cmocka_unit_test(large_numbers_keep_their_text),
      cmocka_unit_test(no_text_is_a_large_number),
      cmocka_unit_test(json_messages_name_the_key),
      cmocka_unit_test(assertions_are_of_builds_that_look_for_faults),
      cmocka_unit_test(whole_pages_are_discarded_and_no_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
