// Weights that have a scale for each block of a row, as programs see them.
//
// Argument: a model with weights of 4 bits in blocks of 64 elements.

#include "check.h"
#include "tensorflow/lite/c/c_api.h"
#include "tensorflow/lite/c/c_api_experimental.h"

int main(int count, char** arguments) {
  CHECK(count == 2);
  TfLiteModel* model = TfLiteModelCreateFromFile(arguments[1]);
  TfLiteInterpreter* interpreter = TfLiteInterpreterCreate(model, NULL);
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  int found = 0;
  for (int index = 0; TfLiteInterpreterGetTensor(interpreter, index) != NULL; ++index) {
    const TfLiteTensor* weights = TfLiteInterpreterGetTensor(interpreter, index);
    if (TfLiteTensorType(weights) != kTfLiteInt4) continue;
    CHECK(weights->quantization.type == kTfLiteBlockwiseQuantization);
    const TfLiteBlockwiseQuantization* blocks = weights->quantization.params;
    CHECK(blocks->blocksize == 64 && blocks->zero_point == -1);
    const TfLiteTensor* scales = TfLiteInterpreterGetTensor(interpreter, blocks->scale);
    CHECK(TfLiteTensorType(scales) == kTfLiteFloat16 && TfLiteTensorData(scales) != NULL);
    CHECK(TfLiteTensorByteSize(weights) * 2 / 64 == TfLiteTensorByteSize(scales) / 2);
    ++found;
  }
  CHECK(found == 1);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
  TfLiteInterpreterDelete(interpreter);
  TfLiteModelDelete(model);
  return 0;
}
