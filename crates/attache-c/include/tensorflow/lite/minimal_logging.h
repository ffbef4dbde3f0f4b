// Writes messages to the standard error output, in C++.

#ifndef TENSORFLOW_LITE_MINIMAL_LOGGING_H_
#define TENSORFLOW_LITE_MINIMAL_LOGGING_H_

#include <cstdarg>
#include <cstdio>

#include "tensorflow/lite/logger.h"

namespace tflite {
namespace logging_internal {

class MinimalLogger {
 public:
  // Writes a line in the form of printf, unless its severity is below the minimum.
  static void Log(LogSeverity severity, const char* format, ...) {
    va_list args;
    va_start(args, format);
    LogFormatted(severity, format, args);
    va_end(args);
  }
  static void LogFormatted(LogSeverity severity, const char* format, va_list args) {
    if (severity < GetMinimumLogSeverity()) return;
    std::fprintf(stderr, "%s: ", GetSeverityName(severity));
    std::vfprintf(stderr, format, args);
    std::fputc('\n', stderr);
  }
  static LogSeverity GetMinimumLogSeverity() { return LoggerOptions::GetMinimumLogSeverity(); }
  static LogSeverity SetMinimumLogSeverity(LogSeverity severity) {
    return LoggerOptions::SetMinimumLogSeverity(severity);
  }
  static const char* GetSeverityName(LogSeverity severity) {
    static const char* const names[] = {"VERBOSE", "INFO", "WARNING", "ERROR"};
    return severity >= TFLITE_LOG_VERBOSE && severity < TFLITE_LOG_SILENT ? names[severity] : "<Unknown severity>";
  }
};

}  // namespace logging_internal
}  // namespace tflite

// Of any build.
#define TFLITE_LOG_PROD(severity, ...) ::tflite::logging_internal::MinimalLogger::Log(severity, __VA_ARGS__)
#define TFLITE_LOG_PROD_ONCE(severity, ...)      \
  do {                                           \
    static const bool tflite_log_done = [&] {    \
      TFLITE_LOG_PROD(severity, __VA_ARGS__);    \
      return true;                               \
    }();                                         \
    (void)tflite_log_done;                       \
  } while (false)

// Of builds without NDEBUG.
#ifndef NDEBUG
#define TFLITE_LOG(severity, ...) TFLITE_LOG_PROD(severity, __VA_ARGS__)
#define TFLITE_LOG_ONCE(severity, ...) TFLITE_LOG_PROD_ONCE(severity, __VA_ARGS__)
#else
#define TFLITE_LOG(severity, ...)                   \
  do {                                              \
    if (false) TFLITE_LOG_PROD(severity, __VA_ARGS__); \
  } while (false)
#define TFLITE_LOG_ONCE(severity, ...) TFLITE_LOG(severity, __VA_ARGS__)
#endif

#endif
