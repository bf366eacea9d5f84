/* A CPU's AMX against the sums that kernels/x86/tiles_amx.h states, bit for bit: what the model of
 * tests/amx stands for. Skipped where there is none. */
#include "amx/tile_products.h"
#include "kernels/cpu.h"

#ifdef OMMAI_TILE_MODEL
#error "real instructions are wanted"
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_of_bf16_are_the_manual_s),
      cmocka_unit_test(products_of_bytes_are_exact),
  };
  bool is_model = ommai_cpu_caveat(OMMAI_CPU_AMX) != NULL;
  if (is_model || !ommai_cpu_has(OMMAI_CPU_AMX)) {
    print_message("skipped: no AMX here\n");
    return 0;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
