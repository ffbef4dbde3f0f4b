/* interpreter_builder.h under another path. */

#ifndef TFLITE_INTERPRETER_BUILDER_H_
#define TFLITE_INTERPRETER_BUILDER_H_

#include "tensorflow/lite/interpreter_builder.h"

#endif
