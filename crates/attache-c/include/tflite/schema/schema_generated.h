/* schema_generated.h under another path. */

#ifndef TFLITE_SCHEMA_SCHEMA_GENERATED_H_
#define TFLITE_SCHEMA_SCHEMA_GENERATED_H_

#include "tensorflow/lite/schema/schema_generated.h"

#endif
