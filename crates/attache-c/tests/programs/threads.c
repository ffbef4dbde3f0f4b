/* What several threads do at once: run interpreters of one compiled model, share one interpreter, cancel a run.

   Arguments: a model that adds two inputs of [1,2,2,3] floats. */

#include <pthread.h>
#include <stdatomic.h>

#include "attache/attache.h"
#include "check.h"

#define THREADS 4
#define RUNS 200

static AttacheCompiledModel* compiled;
static TfLiteInterpreter* shared;
static atomic_bool done;

/* Cancelled runs report that they were cancelled. */
static void ignore(void* user_data, const char* format, va_list args) {
  (void)user_data;
  (void)format;
  (void)args;
}

static void* own_interpreter(void* argument) {
  const float value = (float)*(int*)argument;
  TfLiteInterpreter* interpreter = attache_compiled_model_create_interpreter(compiled);
  CHECK(interpreter != NULL && TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  float* a = TfLiteTensorData(TfLiteInterpreterGetInputTensor(interpreter, 0));
  float* b = TfLiteTensorData(TfLiteInterpreterGetInputTensor(interpreter, 1));
  const float* sum = TfLiteTensorData(TfLiteInterpreterGetOutputTensor(interpreter, 0));
  for (int run = 0; run < RUNS; ++run) {
    a[3] = value;
    b[3] = (float)run;
    CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
    CHECK(sum[3] == value + (float)run);
  }
  TfLiteInterpreterDelete(interpreter);
  return NULL;
}

/* The contract is one thread at a time; a second one waits. */
static void* shared_interpreter(void* argument) {
  (void)argument;
  for (int run = 0; run < RUNS; ++run) {
    const TfLiteStatus status = TfLiteInterpreterInvoke(shared);
    CHECK(status == kTfLiteOk || status == kTfLiteCancelled);
  }
  return NULL;
}

static void* canceller(void* argument) {
  (void)argument;
  while (!atomic_load(&done)) CHECK(TfLiteInterpreterCancel(shared) == kTfLiteOk);
  return NULL;
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  TfLiteModel* model = TfLiteModelCreateFromFile(argv[1]);
  TfLiteInterpreterOptions* options = TfLiteInterpreterOptionsCreate();
  CHECK(TfLiteInterpreterOptionsEnableCancellation(options, true) == kTfLiteOk);
  TfLiteInterpreterOptionsSetErrorReporter(options, ignore, NULL);
  compiled = attache_compiled_model_create(model, options);
  shared = TfLiteInterpreterCreate(model, options);
  TfLiteInterpreterOptionsDelete(options);
  TfLiteModelDelete(model);
  CHECK(TfLiteInterpreterAllocateTensors(shared) == kTfLiteOk);

  pthread_t threads[THREADS], cancelling;
  int numbers[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    numbers[i] = i;
    CHECK(pthread_create(&threads[i], NULL, own_interpreter, &numbers[i]) == 0);
  }
  for (int i = 0; i < THREADS; ++i) CHECK(pthread_join(threads[i], NULL) == 0);

  CHECK(pthread_create(&cancelling, NULL, canceller, NULL) == 0);
  for (int i = 0; i < THREADS; ++i) CHECK(pthread_create(&threads[i], NULL, shared_interpreter, NULL) == 0);
  for (int i = 0; i < THREADS; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  atomic_store(&done, true);
  CHECK(pthread_join(cancelling, NULL) == 0);
  CHECK(TfLiteInterpreterInvoke(shared) == kTfLiteOk);
  TfLiteInterpreterDelete(shared);
  attache_compiled_model_delete(compiled);
  return 0;
}
