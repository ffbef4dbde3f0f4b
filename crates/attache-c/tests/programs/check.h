/* Checks of the test programs: each prints where it failed and ends the program. */

#ifndef ATTACHE_TESTS_CHECK_H_
#define ATTACHE_TESTS_CHECK_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                       \
    }                                                                                \
  } while (0)

#endif
