/* The scripts in src/cli/completion, put into the program by cmake/embed.cmake. */
#pragma once

#include <stddef.h>

extern const unsigned char ommai_completion_bash[], ommai_completion_zsh[], ommai_completion_fish[];
extern const size_t ommai_completion_bash_size, ommai_completion_zsh_size, ommai_completion_fish_size;
