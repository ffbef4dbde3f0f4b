/* Variable tensors, outputs whose shapes are known only after a run, and inputs that have data.

   Arguments: a model with an LSTM, whose state is in variables; one that lists where its input of 4 truth values is true; one
   whose state is in a resource variable; and one that squares its input of 4 numbers, for which the file has 1 to 4. */

#include "check.h"
#include "tensorflow/lite/c/c_api_experimental.h"
#include "tensorflow/lite/c/c_api_opaque.h"

static TfLiteInterpreter* make(const char* path) {
  TfLiteModel* model = TfLiteModelCreateFromFile(path);
  TfLiteInterpreter* interpreter = TfLiteInterpreterCreate(model, NULL);
  TfLiteModelDelete(model);
  CHECK(interpreter != NULL);
  return interpreter;
}

static float first_output(TfLiteInterpreter* interpreter) {
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
  return TfLiteInterpreterGetOutputTensor(interpreter, 0)->data.f[0];
}

static int is_zero(const TfLiteTensor* tensor) {
  for (size_t i = 0; i < tensor->bytes; ++i) {
    if (tensor->data.raw[i]) return 0;
  }
  return 1;
}

static void variables(const char* path) {
  TfLiteInterpreter* interpreter = make(path);
  CHECK(TfLiteInterpreterGetVariableTensorCount(interpreter) == 2);
  TfLiteTensor* state = TfLiteInterpreterGetVariableTensor(interpreter, 0);
  CHECK(state->is_variable && state->allocation_type == kTfLiteArenaRwPersistent && state->data.data == NULL);
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  CHECK(state->data.f != NULL && TfLiteTensorData(state) == state->data.data && is_zero(state));
  CHECK(state->allocation_type == kTfLiteArenaRwPersistent);
  TfLiteTensor* input = TfLiteInterpreterGetInputTensor(interpreter, 0);
  for (size_t i = 0; i < input->bytes / sizeof(float); ++i) input->data.f[i] = 0.25f;
  const float first = first_output(interpreter);
  CHECK(!is_zero(state));
  char kept[4096];
  CHECK(state->bytes <= sizeof(kept) && TfLiteTensorCopyToBuffer(state, kept, state->bytes) == kTfLiteOk);
  const float second = first_output(interpreter);
  CHECK(second != first);

  /* A state that the program sets is the one that the next run begins with. */
  CHECK(TfLiteInterpreterResetVariableTensors(interpreter) == kTfLiteOk && is_zero(state));
  CHECK(first_output(interpreter) == first);
  CHECK(memcmp(state->data.raw, kept, state->bytes) == 0);
  TfLiteTensor* other = TfLiteInterpreterGetVariableTensor(interpreter, 1);
  memset(state->data.raw, 0, state->bytes);
  memset(other->data.raw, 0, other->bytes);
  CHECK(first_output(interpreter) == first);
  memset(other->data.raw, 0, other->bytes);
  CHECK(TfLiteOpaqueTensorCopyFromBuffer((TfLiteOpaqueTensor*)state, kept, state->bytes) == kTfLiteOk);
  CHECK(first_output(interpreter) != first);
  TfLiteInterpreterDelete(interpreter);
}

static void dynamic_outputs(const char* path) {
  TfLiteInterpreter* interpreter = make(path);
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  const TfLiteTensor* output = TfLiteInterpreterGetOutputTensor(interpreter, 0);
  CHECK(output->allocation_type == kTfLiteDynamic && output->data.data == NULL && TfLiteTensorData(output) == NULL);
  TfLiteTensor* input = TfLiteInterpreterGetInputTensor(interpreter, 0);
  CHECK(input->allocation_type == kTfLiteArenaRw);
  for (int count = 4; count >= 0; --count) {
    for (int i = 0; i < 4; ++i) input->data.b[i] = i >= 4 - count;
    CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
    CHECK(output->allocation_type == kTfLiteDynamic && output->dims->data[0] == count);
    CHECK(output->bytes == (size_t)count * sizeof(int64_t));
    CHECK(count == 0 || output->data.i64[count - 1] == 3);
  }
  TfLiteInterpreterDelete(interpreter);
}

/* A reset concerns variable tensors. What a model learned in resource variables stays. */
static void resources(const char* path) {
  TfLiteInterpreter* interpreters[2] = {make(path), make(path)};
  float results[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    CHECK(TfLiteInterpreterAllocateTensors(interpreters[i]) == kTfLiteOk);
    TfLiteTensor* input = TfLiteInterpreterGetInputTensor(interpreters[i], 0);
    for (size_t j = 0; j < input->bytes / sizeof(float); ++j) input->data.f[j] = 0.25f;
    const float first = first_output(interpreters[i]);
    if (i) CHECK(TfLiteInterpreterResetVariableTensors(interpreters[i]) == kTfLiteOk);
    results[i] = first_output(interpreters[i]);
    CHECK(results[i] != first);
    TfLiteInterpreterDelete(interpreters[i]);
  }
  CHECK(results[0] == results[1]);
}

static void inputs_with_data(const char* path) {
  TfLiteInterpreter* interpreter = make(path);
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  TfLiteTensor* input = TfLiteInterpreterGetInputTensor(interpreter, 0);
  float values[4];
  CHECK(TfLiteTensorCopyToBuffer(input, values, sizeof(values)) == kTfLiteOk && values[2] == 3.0f);
  CHECK(first_output(interpreter) == 1.0f && TfLiteInterpreterGetOutputTensor(interpreter, 0)->data.f[3] == 16.0f);
  values[0] = 5.0f;
  CHECK(TfLiteTensorCopyFromBuffer(input, values, sizeof(values)) == kTfLiteOk);
  CHECK(first_output(interpreter) == 25.0f && TfLiteInterpreterGetOutputTensor(interpreter, 0)->data.f[3] == 16.0f);
  const int length = 6;
  CHECK(TfLiteInterpreterResizeInputTensor(interpreter, 0, &length, 1) == kTfLiteOk);
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  float more[6];
  CHECK(TfLiteTensorCopyToBuffer(input, more, sizeof(more)) == kTfLiteOk && more[0] == 0.0f);
  CHECK(first_output(interpreter) == 0.0f);
  TfLiteInterpreterDelete(interpreter);
}

int main(int argc, char** argv) {
  CHECK(argc == 5);
  variables(argv[1]);
  dynamic_outputs(argv[2]);
  resources(argv[3]);
  inputs_with_data(argv[4]);
  return 0;
}
