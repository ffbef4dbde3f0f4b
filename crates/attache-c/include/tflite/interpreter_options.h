/* interpreter_options.h under another path. */

#ifndef TFLITE_INTERPRETER_OPTIONS_H_
#define TFLITE_INTERPRETER_OPTIONS_H_

#include "tensorflow/lite/interpreter_options.h"

#endif
