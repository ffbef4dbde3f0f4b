/* Constants that a file stores in sparse form, as programs see them.

   Argument: a model whose tensor 0 of [4,6] floats stores the elements of its rows that are not zero. */

#include "check.h"
#include "tensorflow/lite/c/c_api.h"
#include "tensorflow/lite/c/c_api_experimental.h"

int main(int count, char** arguments) {
  CHECK(count == 2);
  TfLiteModel* model = TfLiteModelCreateFromFile(arguments[1]);
  TfLiteInterpreter* interpreter = TfLiteInterpreterCreate(model, NULL);
  TfLiteModelDelete(model);
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  const TfLiteTensor* weights = TfLiteInterpreterGetTensor(interpreter, 0);
  CHECK(weights->allocation_type == kTfLiteMmapRo && weights->dims->data[0] == 4 && weights->dims->data[1] == 6);
  const TfLiteSparsity* sparsity = weights->sparsity;
  CHECK(sparsity != NULL && sparsity->traversal_order->size == 2 && sparsity->traversal_order->data[1] == 1);
  CHECK(sparsity->dim_metadata_size == 2 && sparsity->block_map->size == 0);
  const TfLiteDimensionMetadata* axes = sparsity->dim_metadata;
  CHECK(axes[0].format == kTfLiteDimDense && axes[0].dense_size == 4);
  CHECK(axes[0].array_segments == NULL && axes[0].array_indices == NULL);
  CHECK(axes[1].format == kTfLiteDimSparseCSR && axes[1].dense_size == 0 && axes[1].array_segments->size == 5);
  const int stored = axes[1].array_segments->data[4];
  CHECK(stored == axes[1].array_indices->size && stored < 24);
  CHECK(TfLiteTensorByteSize(weights) == (size_t)stored * sizeof(float));
  float copy[24];
  CHECK(TfLiteTensorCopyToBuffer(weights, copy, TfLiteTensorByteSize(weights)) == kTfLiteOk);
  CHECK(memcmp(copy, TfLiteTensorData(weights), TfLiteTensorByteSize(weights)) == 0);

  /* Runs have the elements where they belong. */
  for (int i = 0; i < TfLiteInterpreterGetInputTensorCount(interpreter); ++i) {
    TfLiteTensor* input = TfLiteInterpreterGetInputTensor(interpreter, i);
    memset(TfLiteTensorData(input), 0, TfLiteTensorByteSize(input));
  }
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
  CHECK(TfLiteTensorByteSize(weights) == (size_t)stored * sizeof(float));
  for (int i = 1; TfLiteInterpreterGetTensor(interpreter, i) != NULL; ++i) {
    CHECK(TfLiteInterpreterGetTensor(interpreter, i)->sparsity == NULL);
  }
  TfLiteInterpreterDelete(interpreter);
  return 0;
}
