// Prints the state of an interpreter.

#ifndef TENSORFLOW_LITE_OPTIONAL_DEBUG_TOOLS_H_
#define TENSORFLOW_LITE_OPTIONAL_DEBUG_TOOLS_H_

#include <cstdio>

#include "tensorflow/lite/interpreter.h"

namespace tflite {

// Prints the index, name, type and shape of each tensor, and whether it has memory, to the standard output.
inline void PrintInterpreterState(const Interpreter* interpreter) {
  std::printf("Interpreter has %zu tensors\n", interpreter->tensors_size());
  for (size_t i = 0; i < interpreter->tensors_size(); ++i) {
    const TfLiteTensor* tensor = interpreter->tensor(static_cast<int>(i));
    std::printf("Tensor %3zu %-40s %-10s %10zu bytes [", i, tensor->name ? tensor->name : "",
                TfLiteTypeGetName(tensor->type), tensor->bytes);
    for (int axis = 0; axis < tensor->dims->size; ++axis) std::printf(axis ? ",%d" : "%d", tensor->dims->data[axis]);
    std::printf("]%s\n", tensor->data.data ? "" : " without memory");
  }
}

}  // namespace tflite

#endif
