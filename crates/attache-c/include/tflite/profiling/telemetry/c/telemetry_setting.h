/* telemetry_setting.h under another path. */

#ifndef TFLITE_PROFILING_TELEMETRY_C_TELEMETRY_SETTING_H_
#define TFLITE_PROFILING_TELEMETRY_C_TELEMETRY_SETTING_H_

#include "tensorflow/lite/profiling/telemetry/c/telemetry_setting.h"

#endif
