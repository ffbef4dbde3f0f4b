/* attache/file.h under another path. */

#ifndef TENSORFLOW_LITE_SCHEMA_SCHEMA_UTILS_H_
#define TENSORFLOW_LITE_SCHEMA_SCHEMA_UTILS_H_

#include "tensorflow/lite/schema/schema_generated.h"

#endif
