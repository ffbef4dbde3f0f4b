// Tensors of strings: every way to set an input, and outputs whose size changes from run to run.
//
// Arguments: a model that puts two copies of two rows of three strings below each other, and one with the custom operator "Backwards" of a list.

#include <string>
#include <vector>

#include "check.h"
#include "tensorflow/lite/c/c_api_experimental.h"
#include "tensorflow/lite/c/c_api_opaque.h"
#include "tensorflow/lite/interpreter.h"
#include "tensorflow/lite/kernels/register.h"
#include "tensorflow/lite/model.h"
#include "tensorflow/lite/string_util.h"

using Texts = std::vector<std::string>;

static Texts twice(const Texts& texts) {
  Texts result = texts;
  result.insert(result.end(), texts.begin(), texts.end());
  return result;
}

static Texts of(const TfLiteTensor* tensor) {
  Texts texts;
  for (int i = 0; i < tflite::GetStringCount(tensor); ++i) {
    const tflite::StringRef text = tflite::GetString(tensor, i);
    texts.emplace_back(text.str, text.len);
  }
  return texts;
}

static tflite::DynamicBuffer buffer_of(const Texts& texts) {
  tflite::DynamicBuffer buffer;
  for (const std::string& text : texts) CHECK(buffer.AddString(text.data(), text.size()) == kTfLiteOk);
  return buffer;
}

static Texts numbered(int count, int length) {
  Texts texts;
  for (int i = 0; i < count; ++i) texts.push_back(std::to_string(i) + std::string(static_cast<size_t>(length), 'x'));
  return texts;
}

static void classes(const char* path) {
  auto model = tflite::FlatBufferModel::BuildFromFile(path);
  tflite::ops::builtin::BuiltinOpResolver resolver;
  std::unique_ptr<tflite::Interpreter> interpreter;
  CHECK(tflite::InterpreterBuilder(*model, resolver)(&interpreter) == kTfLiteOk);
  CHECK(interpreter->AllocateTensors() == kTfLiteOk);
  TfLiteTensor* input = interpreter->input_tensor(0);
  const TfLiteTensor* output = interpreter->output_tensor(0);
  CHECK(input->type == kTfLiteString && input->allocation_type == kTfLiteDynamic && input->data.data == nullptr);

  // Without content, strings are empty.
  CHECK(interpreter->Invoke() == kTfLiteOk);
  CHECK(of(output) == Texts(12));
  for (int length : {3, 1000, 0, 50}) {
    const Texts texts = numbered(6, length);
    CHECK(buffer_of(texts).WriteToTensor(input, nullptr) == kTfLiteOk);
    CHECK(interpreter->Invoke() == kTfLiteOk);
    CHECK(of(output) == twice(texts) && of(input) == texts);
    CHECK(output->dims->data[0] == 4 && output->dims->data[1] == 3);
  }

  // A shape that comes with the content.
  for (int rows : {5, 1}) {
    TfLiteIntArray* shape = TfLiteIntArrayCreate(2);
    shape->data[0] = rows;
    shape->data[1] = 4;
    const Texts texts = numbered(rows * 4, rows);
    CHECK(buffer_of(texts).WriteToTensor(input, shape) == kTfLiteOk);
    CHECK(interpreter->Invoke() == kTfLiteOk);
    CHECK(of(output) == twice(texts));
    CHECK(output->dims->data[0] == 2 * rows && output->dims->data[1] == 4);
  }

  // Fewer strings than elements are an error, and a run with as many works again.
  CHECK(buffer_of(numbered(3, 1)).WriteToTensor(input, nullptr) == kTfLiteOk);
  CHECK(interpreter->Invoke() == kTfLiteError);
  CHECK(interpreter->ResizeInputTensor(0, {1, 2}) == kTfLiteOk && interpreter->AllocateTensors() == kTfLiteOk);
  CHECK(buffer_of({"a", "b"}).WriteToTensor(input, nullptr) == kTfLiteOk);
  CHECK(interpreter->Invoke() == kTfLiteOk && of(output) == twice({"a", "b"}));
}

static void functions(const char* path) {
  TfLiteModel* model = TfLiteModelCreateFromFile(path);
  TfLiteInterpreter* interpreter = TfLiteInterpreterCreate(model, nullptr);
  TfLiteModelDelete(model);
  TfLiteTensor* input = TfLiteInterpreterGetInputTensor(interpreter, 0);
  const TfLiteTensor* output = TfLiteInterpreterGetOutputTensor(interpreter, 0);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteError);
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  CHECK(TfLiteTensorByteSize(input) == 0 && TfLiteTensorData(input) == nullptr && TfLiteTensorData(output) == nullptr);
  char room[128];
  CHECK(TfLiteTensorCopyToBuffer(output, room, sizeof(room)) == kTfLiteError);

  const Texts texts = {"a", "", std::string("c\0c", 3), "d", "e", "f"};
  char* content = nullptr;
  const size_t size = static_cast<size_t>(buffer_of(texts).WriteToBuffer(&content));
  CHECK(TfLiteTensorCopyFromBuffer(input, content, size) == kTfLiteOk && of(input) == texts);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk && of(output) == twice(texts));
  const size_t result = TfLiteTensorByteSize(output);
  CHECK(result == 2 * size - 2 * sizeof(int32_t) && result <= sizeof(room));
  CHECK(TfLiteTensorCopyToBuffer(output, room, result) == kTfLiteOk);
  CHECK(memcmp(room, TfLiteTensorData(output), result) == 0);
  CHECK(TfLiteTensorCopyToBuffer(output, room, result - 1) == kTfLiteError);

  // Content that is no six strings is refused, and what was there stays.
  CHECK(TfLiteTensorCopyFromBuffer(input, content, size - 1) == kTfLiteError);
  CHECK(TfLiteTensorCopyFromBuffer(input, content, 3) == kTfLiteError && of(input) == texts);
  CHECK(TfLiteTensorRealloc(size, input) == kTfLiteOk);
  memcpy(TfLiteTensorData(input), content, size);
  const int32_t outside = 1 << 20;
  memcpy(static_cast<char*>(TfLiteTensorData(input)) + 8, &outside, sizeof(outside));
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteError);
  memcpy(TfLiteTensorData(input), content, size);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk && of(output) == twice(texts));
  free(content);

  // The opaque functions make a vector.
  const char* words[] = {"one", "two"};
  const int lengths[] = {3, 2};
  TfLiteOpaqueTensor* opaque = reinterpret_cast<TfLiteOpaqueTensor*>(input);
  CHECK(TfLiteOpaqueTensorWriteStrings(opaque, words, 2, lengths) == kTfLiteOk);
  CHECK(of(input) == (Texts{"one", "tw"}) && TfLiteTensorNumDims(input) == 1 && TfLiteTensorDim(input, 0) == 2);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteError);
  const int extents[] = {1, 2};
  CHECK(TfLiteInterpreterResizeInputTensor(interpreter, 0, extents, 2) == kTfLiteOk);
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk && of(output) == twice({"one", "tw"}));
  TfLiteTensorDataFree(input);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk && of(output) == Texts(4));
  TfLiteInterpreterDelete(interpreter);
}

static TfLiteStatus backwards(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* input = &context->tensors[node->inputs->data[0]];
  TfLiteTensor* output = &context->tensors[node->outputs->data[0]];
  if (input->allocation_type != kTfLiteDynamic || output->allocation_type != kTfLiteDynamic) return kTfLiteError;
  const Texts texts = of(input);
  return buffer_of(Texts(texts.rbegin(), texts.rend())).WriteToTensorAsVector(output);
}

static void operators(const char* path) {
  TfLiteRegistration registration;
  memset(&registration, 0, sizeof(registration));
  registration.invoke = backwards;
  registration.custom_name = "Backwards";
  registration.version = 1;
  TfLiteInterpreterOptions* options = TfLiteInterpreterOptionsCreate();
  TfLiteInterpreterOptionsAddCustomOp(options, "Backwards", &registration, 1, 1);
  TfLiteModel* model = TfLiteModelCreateFromFile(path);
  TfLiteInterpreter* interpreter = TfLiteInterpreterCreate(model, options);
  TfLiteModelDelete(model);
  TfLiteInterpreterOptionsDelete(options);
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  TfLiteTensor* input = TfLiteInterpreterGetInputTensor(interpreter, 0);
  const TfLiteTensor* output = TfLiteInterpreterGetOutputTensor(interpreter, 0);
  for (const Texts& texts : {Texts{"a", "bcd"}, Texts{"", "x"}, Texts{"one", "two", "three"}, Texts{}}) {
    CHECK(buffer_of(texts).WriteToTensorAsVector(input) == kTfLiteOk);
    CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
    CHECK(of(output) == Texts(texts.rbegin(), texts.rend()));
    CHECK(TfLiteTensorDim(output, 0) == static_cast<int>(texts.size()));
  }
  TfLiteInterpreterDelete(interpreter);
}

int main(int argc, char** argv) {
  CHECK(argc == 3);
  classes(argv[1]);
  functions(argv[1]);
  operators(argv[2]);
  return 0;
}
