/* interpreter.h under another path. */

#ifndef TFLITE_CORE_INTERPRETER_H_
#define TFLITE_CORE_INTERPRETER_H_

#include "tensorflow/lite/core/interpreter.h"

#endif
