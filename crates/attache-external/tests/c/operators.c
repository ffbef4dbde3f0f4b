// Operators of C: "Halve", a custom one whose options are the divisor, and "Keep", whose output has the size that the
// first element of its input says.
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

TfLiteRegistration Register_HALVE(void) {
  return (TfLiteRegistration){HalveInit, HalveFree, HalvePrepare, HalveInvoke, .custom_name = "Halve", .version = 1};
}

TfLiteRegistration Register_KEEP(void) {
  return (TfLiteRegistration){.prepare = KeepPrepare, .invoke = KeepInvoke, .custom_name = "Keep", .version = 1};
}
