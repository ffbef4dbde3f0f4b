/* interpreter_builder.h under another path. */

#ifndef TFLITE_CORE_INTERPRETER_BUILDER_H_
#define TFLITE_CORE_INTERPRETER_BUILDER_H_

#include "tensorflow/lite/core/interpreter_builder.h"

#endif
