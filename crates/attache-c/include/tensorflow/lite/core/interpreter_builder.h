/* interpreter_builder.h under another path. */

#ifndef TENSORFLOW_LITE_CORE_INTERPRETER_BUILDER_H_
#define TENSORFLOW_LITE_CORE_INTERPRETER_BUILDER_H_

#include "tensorflow/lite/interpreter_builder.h"

#endif
