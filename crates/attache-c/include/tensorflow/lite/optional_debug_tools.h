// Prints the state of an interpreter.

#ifndef TENSORFLOW_LITE_OPTIONAL_DEBUG_TOOLS_H_
#define TENSORFLOW_LITE_OPTIONAL_DEBUG_TOOLS_H_

#include <cstdio>

#include "tensorflow/lite/interpreter.h"

namespace tflite {

// Prints the index, name, type and shape of each tensor, whether it has memory, and the nodes in the order in which they
// run, with the tensors that they read and write, to the standard output.
inline void PrintInterpreterState(const Interpreter* interpreter) {
  std::printf("Interpreter has %zu tensors\n", interpreter->tensors_size());
  for (size_t i = 0; i < interpreter->tensors_size(); ++i) {
    const TfLiteTensor* tensor = interpreter->tensor(static_cast<int>(i));
    std::printf("Tensor %3zu %-40s %-10s %10zu bytes [", i, tensor->name ? tensor->name : "",
                TfLiteTypeGetName(tensor->type), tensor->bytes);
    for (int axis = 0; axis < tensor->dims->size; ++axis) std::printf(axis ? ",%d" : "%d", tensor->dims->data[axis]);
    std::printf("]%s\n", tensor->data.data ? "" : " without memory");
  }
  for (const int index : interpreter->execution_plan()) {
    const auto* found = interpreter->node_and_registration(index);
    if (!found) continue;
    const char* name = found->second.custom_name;
    std::printf("Node %3d operator %3d %s\n  inputs", index, found->second.builtin_code, name ? name : "");
    for (int i = 0; i < found->first.inputs->size; ++i) std::printf(" %d", found->first.inputs->data[i]);
    std::printf("\n  outputs");
    for (int i = 0; i < found->first.outputs->size; ++i) std::printf(" %d", found->first.outputs->data[i]);
    std::printf("\n");
  }
}

}  // namespace tflite

#endif
