// Takes errors, in C++.

#ifndef TENSORFLOW_LITE_ERROR_REPORTER_H_
#define TENSORFLOW_LITE_ERROR_REPORTER_H_

#include <cstdarg>
#include <cstdio>

namespace tflite {

class ErrorReporter {
 public:
  virtual ~ErrorReporter() = default;
  virtual int Report(const char* format, va_list args) = 0;

  int Report(const char* format, ...) {
    va_list args;
    va_start(args, format);
    const int written = Report(format, args);
    va_end(args);
    return written;
  }
  int ReportError(void*, const char* format, ...) {
    va_list args;
    va_start(args, format);
    const int written = Report(format, args);
    va_end(args);
    return written;
  }
};

// Writes to the standard error output.
class StderrReporter : public ErrorReporter {
 public:
  using ErrorReporter::Report;
  int Report(const char* format, va_list args) override {
    std::fputs("ERROR: ", stderr);
    const int written = std::vfprintf(stderr, format, args);
    std::fputc('\n', stderr);
    return written;
  }
};

inline ErrorReporter* DefaultErrorReporter() {
  static StderrReporter reporter;
  return &reporter;
}

namespace internal {

// A reporter of the C API, whose data is an ErrorReporter; null for the default one.
inline void ReportTo(void* user_data, const char* format, va_list args) {
  ErrorReporter* reporter = static_cast<ErrorReporter*>(user_data);
  (reporter ? reporter : DefaultErrorReporter())->Report(format, args);
}

// A reporter that says nothing.
inline ErrorReporter* Nobody() {
  class Silent : public ErrorReporter {
   public:
    int Report(const char*, va_list) override { return 0; }
  };
  static Silent silent;
  return &silent;
}

}  // namespace internal
}  // namespace tflite

// Reports a message in the form of printf.
#define TF_LITE_REPORT_ERROR(reporter, ...)                         \
  do {                                                              \
    static_cast<::tflite::ErrorReporter*>(reporter)->Report(__VA_ARGS__); \
  } while (false)

#endif
