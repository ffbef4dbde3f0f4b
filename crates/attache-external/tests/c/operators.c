// Operators of C: "Halve", a custom one whose options are the divisor, and "Keep", whose output has the size that the
// first element of its input says. "Count" adds to its input the number of its runs, which it keeps. "Requantize" gives
// integers the quantization of its output.
#include "abi.h"

static int g_alive;

int operators_alive(void) { return g_alive; }

static void* HalveInit(TfLiteContext* context, const char* buffer, size_t length) {
  (void)context;
  float* divisor = malloc(sizeof(float));
  *divisor = 2;
  if (length == sizeof(float)) memcpy(divisor, buffer, sizeof(float));
  g_alive += 1;
  return divisor;
}

static void HalveFree(TfLiteContext* context, void* data) {
  (void)context;
  free(data);
  g_alive -= 1;
}

static TfLiteStatus HalvePrepare(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* input = &context->tensors[node->inputs->data[0]];
  if (input->type != kFloat32) {
    context->ReportError(context, "Halve: type %d", input->type);
    return kTfLiteError;
  }
  TfLiteIntArray* dims = NewIntArray(input->dims->size);
  memcpy(dims->data, input->dims->data, sizeof(int) * (size_t)dims->size);
  return context->ResizeTensor(context, &context->tensors[node->outputs->data[0]], dims);
}

static TfLiteStatus HalveInvoke(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* input = &context->tensors[node->inputs->data[0]];
  TfLiteTensor* output = &context->tensors[node->outputs->data[0]];
  const float* divisor = node->user_data;
  for (size_t i = 0; i < Elements(input->dims); ++i) output->data.f[i] = input->data.f[i] / *divisor;
  return kTfLiteOk;
}

static TfLiteStatus KeepPrepare(TfLiteContext* context, TfLiteNode* node) {
  TfLiteTensor* output = &context->tensors[node->outputs->data[0]];
  output->allocation_type = kDynamic;
  output->data.raw = NULL;
  return kTfLiteOk;
}

static TfLiteStatus KeepInvoke(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* input = &context->tensors[node->inputs->data[0]];
  int count = (int)input->data.f[0];
  if (count > (int)Elements(input->dims)) {
    context->ReportError(context, "Keep: %d elements of %d", count, (int)Elements(input->dims));
    return kTfLiteError;
  }
  TfLiteTensor* output = &context->tensors[node->outputs->data[0]];
  if (context->ResizeTensorExplicit(context, output, 1, &count) != kTfLiteOk) return kTfLiteError;
  memcpy(output->data.raw, input->data.raw, sizeof(float) * (size_t)count);
  return kTfLiteOk;
}

static void* CountInit(TfLiteContext* context, const char* buffer, size_t length) {
  (void)context, (void)buffer, (void)length;
  g_alive += 1;
  return calloc(1, sizeof(float));
}

static TfLiteStatus CountPrepare(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* input = &context->tensors[node->inputs->data[0]];
  // A tensor that the operator rounds intermediate results to, if the model has one.
  if (node->intermediates->size > 0) {
    int intermediate = node->intermediates->data[0];
    if (intermediate < 0 || (size_t)intermediate >= context->tensors_size) return kTfLiteError;
    if (strcmp(context->tensors[intermediate].name, "between") != 0) return kTfLiteError;
  }
  TfLiteIntArray* dims = NewIntArray(input->dims->size);
  memcpy(dims->data, input->dims->data, sizeof(int) * (size_t)dims->size);
  return context->ResizeTensor(context, &context->tensors[node->outputs->data[0]], dims);
}

static TfLiteStatus CountInvoke(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* input = &context->tensors[node->inputs->data[0]];
  TfLiteTensor* output = &context->tensors[node->outputs->data[0]];
  float* runs = node->user_data;
  *runs += 1;
  for (size_t i = 0; i < Elements(input->dims); ++i) output->data.f[i] = input->data.f[i] + *runs;
  return kTfLiteOk;
}

static TfLiteStatus RequantizeInvoke(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* input = &context->tensors[node->inputs->data[0]];
  TfLiteTensor* output = &context->tensors[node->outputs->data[0]];
  if (context->recommended_num_threads != 2) return kTfLiteError;
  if (strcmp(output->name, "y") != 0 || output->quantization.params == NULL) return kTfLiteError;
  for (size_t i = 0; i < input->bytes; ++i) {
    float value = (float)(((int8_t*)input->data.raw)[i] - input->params.zero_point) * input->params.scale;
    ((int8_t*)output->data.raw)[i] = (int8_t)(value / output->params.scale + (float)output->params.zero_point);
  }
  return kTfLiteOk;
}

TfLiteRegistration Register_COUNT(void) {
  return (TfLiteRegistration){CountInit, HalveFree, CountPrepare, CountInvoke, .custom_name = "Count", .version = 1};
}

TfLiteRegistration Register_REQUANTIZE(void) {
  return (TfLiteRegistration){.invoke = RequantizeInvoke, .custom_name = "Requantize", .version = 1};
}

TfLiteRegistration Register_HALVE(void) {
  return (TfLiteRegistration){HalveInit, HalveFree, HalvePrepare, HalveInvoke, .custom_name = "Halve", .version = 1};
}

TfLiteRegistration Register_KEEP(void) {
  return (TfLiteRegistration){.prepare = KeepPrepare, .invoke = KeepInvoke, .custom_name = "Keep", .version = 1};
}
