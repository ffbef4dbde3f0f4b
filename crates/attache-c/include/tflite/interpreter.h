/* interpreter.h under another path. */

#ifndef TFLITE_INTERPRETER_H_
#define TFLITE_INTERPRETER_H_

#include "tensorflow/lite/interpreter.h"

#endif
