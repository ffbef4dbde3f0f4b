/* A program that uses the installed library. */

#include <stdio.h>
#include <string.h>

#include "attache/attache.h"
#include "tensorflow/lite/c/c_api.h"

int main(void) {
  printf("Attaché %s with the API of TensorFlow Lite %s\n", attache_version(), TfLiteVersion());
  const char bytes[] = "not a model";
  return TfLiteModelCreate(bytes, strlen(bytes)) == NULL && TfLiteSchemaVersion() == 3 ? 0 : 1;
}
