/* `omma read`'s loop over the scripted engine: a page in two steps, with figures, on its way to
 * files; and an answer that fails. */
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/core/interrupt.h"
#include "cli/serve/read_inputs.h"
#include "server/server.h"
#include "support/test.h"

#define LAYOUT                                                                             \
  "<|box_start|>100 100 900 200<|box_end|><|ref_start|>title<|ref_end|><|rotate_up|>\n"    \
  "<|box_start|>100 300 400 600<|box_end|><|ref_start|>image<|ref_end|><|rotate_right|>\n" \
  "<|box_start|>500 300 900 600<|box_end|><|ref_start|>table<|ref_end|><|rotate_up|>\n"    \
  "<|box_start|>100 700 900 800<|box_end|><|ref_start|>text<|ref_end|><|rotate_up|>\n"

static char folder[] = "/tmp/omma-read-XXXXXX";

static void write_file(const char *name, const char *text) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  fputs(text, file);
  fclose(file);
}

static char *read_text(const char *name) {
  static char text[4096];
  char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("%s is missing", path);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  return text;
}

/* White images of 200 x 100 in the folder's "in". */
static void write_pages(int n) {
  char path[128];
  struct omma_error error;
  static uint8_t pixels[200 * 100 * 3];
  const struct ommai_image image = {.width = 200, .height = 100, .pixels = pixels};
  memset(pixels, 255, sizeof pixels);
  snprintf(path, sizeof path, "%s/in", folder);
  mkdir(path, 0777);
  for (int i = 0; i < n; i++) {
    snprintf(path, sizeof path, "%s/in/page%d.png", folder, i);
    assert_int_equal(ommai_page_write_png(&image, path, &error), OMMA_OK);
  }
}

static int read_all(int n_jobs, struct ommai_read_counts *counts) {
  char in[128];
  const char *items[] = {in};
  const struct ommai_strings paths = {.items = items, .count = 1};
  struct omma_server_options options;
  struct ommai_read_job job = {.recipe = ommai_reading_recipe_find("mineru2.5"),
                               .model = "scripted",
                               .folder = folder,
                               .dpi = 72,
                               .n_open = (size_t)n_jobs,
                               .n_parallel = 3,
                               .limits = {1 << 30, 1 << 20, 10}};
  struct omma_model *model;
  ommai_server_options_default(&options);
  options.offline = true;
  struct omma_engine *engine;
  struct omma_error error;
  int64_t n_bad;
  snprintf(in, sizeof in, "%s/in", folder);
  *counts = (struct ommai_read_counts){0};
  assert_true(ommai_page_list_read(NULL, &job.pages));
  assert_int_equal(ommai_read_inputs(&paths, &job.pages, &job.limits, folder, &job.documents, &job.n_documents, &n_bad), 0);
  assert_int_equal(omma_model_open(folder, NULL, &model, &error), OMMA_OK);
  assert_int_equal(omma_engine_create(model, NULL, &engine, &error), OMMA_OK);
  assert_int_equal(ommai_server_create(&options, model, engine, &job.server, &error), OMMA_OK);
  int code = ommai_read_run(&job, counts);
  ommai_server_destroy(job.server);
  omma_engine_destroy(engine);
  omma_model_close(model);
  ommai_read_inputs_release(job.documents, job.n_documents);
  return code;
}

static void pages_go_through_layout_and_blocks(void **state) {
  (void)state;
  struct ommai_read_counts counts;
  write_pages(5);
  write_file("1036x1036", LAYOUT);
  write_file("160x28", "A text of it");
  write_file("80x30", "<fcel>a<lcel><nl><fcel>b<fcel>c<nl>");
  write_file("other", "A text of it");
  for (int n_jobs = 1; n_jobs <= 4; n_jobs += 3) {
    assert_int_equal(read_all(n_jobs, &counts), 0);
    assert_int_equal(counts.n_read, 5);
    assert_int_equal(counts.n_failed, 0);
    assert_string_equal(read_text("page3.md"),
                        "# A text of it\n\n![image](<page3_figures/page-1-2.png>)\n\n"
                        "<table><tr><td colspan=\"2\">a</td></tr><tr><td>b</td><td>c</td></tr></table>\n\nA text of it\n");
    /* turned: 60 x 30 pixels of the page */
    assert_memory_equal(read_text("page3_figures/page-1-2.png") + 16, "\0\0\0\x1e\0\0\0\x3c", 8);
  }
}

static void an_answer_that_fails_fails_its_page(void **state) {
  (void)state;
  struct ommai_read_counts counts;
  char path[128];
  snprintf(path, sizeof path, "%s/other", folder);
  unlink(path);
  snprintf(path, sizeof path, "%s/80x30", folder);
  unlink(path);
  assert_int_equal(read_all(2, &counts), 0);
  assert_int_equal(counts.n_failed, 5);
  assert_non_null(strstr(read_text("page0.pages.jsonl"), "no answer to this image"));
}

static int set_up(void **state) {
  (void)state;
  return mkdtemp(folder) && ommai_interrupt_install() ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *where) {
  (void)status, (void)kind, (void)where;
  return remove(path);
}

static int tear_down(void **state) {
  (void)state;
  return nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pages_go_through_layout_and_blocks),
      cmocka_unit_test(an_answer_that_fails_fails_its_page),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
