/* What loader.c and system.c share. */
#pragma once
#include <stdint.h>

/* A line of output. */
void say(const char* word, const char* format, ...) __attribute__((format(printf, 2, 3)));
/* The last line of output. */
void stop(const char* word, const char* text) __attribute__((noreturn));
