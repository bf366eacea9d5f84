/* The page in the program: its size, and the headers that go with it. */
#include <sodium.h>

#include "base/allocator.h"
#include "server/http/http_head.h"
#include "server/http/page.h"
#include "server/http/page_file.h"
#include "support/test.h"

#define MAX_BYTES 64000

static struct ommai_page *make_page(void) {
  struct omma_error error = {0};
  struct ommai_page *page = NULL;
  assert_true(sodium_init() >= 0);
  assert_ok(ommai_page_create(&ommai_default_allocator, &page, &error), &error);
  return page;
}

static const char *header_of(const struct ommai_page *page, const char *name) {
  for (const struct ommai_header *header = page->headers; header->name; header++) {
    if (!strcmp(header->name, name)) return header->value;
  }
  fail_msg("there is no header %s", name);
  return NULL;
}

static bool holds(const char *text) { return memmem(ommai_page_file, ommai_page_file_size, text, strlen(text)) != NULL; }

static void test_file(void **state) {
  (void)state;
  assert_in_range(ommai_page_file_size, 1000, MAX_BYTES);
  assert_memory_equal(ommai_page_file, "<!doctype html>\n", 16);
  assert_memory_equal(ommai_page_file + ommai_page_file_size - 8, "</html>\n", 8);
}

/* What the policy would refuse, or what would let a model's text become markup. */
static void test_file_keeps_to_its_policy(void **state) {
  (void)state;
  static const char *const parts[] = {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", " style=\"",
                                      " onclick=", "eval(",     "https://",           "<base",          "href=\"/"};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    if (holds(parts[i])) fail_msg("the page has %s", parts[i]);
  }
}

static void test_policy(void **state) {
  (void)state;
  struct ommai_page *page = make_page();
  const char *policy = header_of(page, "Content-Security-Policy");
  assert_ptr_equal(policy, page->policy);
  assert_true(strlen(policy) < sizeof page->policy - 1);
  static const char *const parts[] = {"default-src 'none';", "style-src 'sha256-",      "script-src 'sha256-",
                                      "connect-src 'self';", "frame-ancestors 'none';", "trusted-types 'none'"};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    if (!strstr(policy, parts[i])) fail_msg("%s lacks %s", policy, parts[i]);
  }
  assert_null(strstr(policy, "unsafe"));
  assert_string_equal(header_of(page, "X-Content-Type-Options"), "nosniff");
  assert_string_equal(header_of(page, "ETag"), page->etag);
  ommai_page_destroy(page, &ommai_default_allocator);
}

static void test_known(void **state) {
  (void)state;
  struct ommai_page *page = make_page();
  char list[160];
  snprintf(list, sizeof list, "\"other\", W/%s", page->etag);
  assert_true(ommai_page_is_known(page, page->etag));
  assert_true(ommai_page_is_known(page, list));
  assert_true(ommai_page_is_known(page, "*"));
  assert_false(ommai_page_is_known(page, NULL));
  assert_false(ommai_page_is_known(page, ""));
  assert_false(ommai_page_is_known(page, "\"other\""));
  ommai_page_destroy(page, &ommai_default_allocator);
}

static enum omma_status make_and_destroy(const struct omma_allocator *allocator, struct omma_error *error) {
  struct ommai_page *page = NULL;
  enum omma_status status = ommai_page_create(allocator, &page, error);
  ommai_page_destroy(page, allocator);
  return status;
}

static void test_memory(void **state) {
  (void)state;
  test_fail_every_allocation(make_and_destroy, 3);
}

static void test_paths_below_a_root(void **state) {
  (void)state;
  static const struct {
    const char *path, *root, *below;
  } cases[] = {{"/v1/models", NULL, "/v1/models"},
               {"/models/v1/models", "/models", "/v1/models"},
               {"/models", "/models", "/"},
               {"/models/", "/models", "/"},
               {"/v1/models", "/models", "/v1/models"},
               {"/modelsv1", "/models", "/modelsv1"},
               {"/models/models/health", "/models", "/models/health"},
               {"/a/b/ping", "/a/b", "/ping"},
               {"/a", "/a/b", "/a"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_string_equal(ommai_http_head_below(cases[i].path, cases[i].root), cases[i].below);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_file),   cmocka_unit_test(test_file_keeps_to_its_policy),
                                     cmocka_unit_test(test_policy), cmocka_unit_test(test_known),
                                     cmocka_unit_test(test_memory), cmocka_unit_test(test_paths_below_a_root)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
