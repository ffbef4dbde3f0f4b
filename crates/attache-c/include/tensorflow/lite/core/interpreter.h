/* interpreter.h under another path. */

#ifndef TENSORFLOW_LITE_CORE_INTERPRETER_H_
#define TENSORFLOW_LITE_CORE_INTERPRETER_H_

#include "tensorflow/lite/interpreter.h"

#endif
