// From which severity on messages are written, in C++.

#ifndef TENSORFLOW_LITE_LOGGER_H_
#define TENSORFLOW_LITE_LOGGER_H_

namespace tflite {

enum LogSeverity {
  TFLITE_LOG_VERBOSE = 0,
  TFLITE_LOG_INFO = 1,
  TFLITE_LOG_WARNING = 2,
  TFLITE_LOG_ERROR = 3,
  TFLITE_LOG_SILENT = 4
};

// Of the messages that the program writes with minimal_logging.h. The library's own go to reporters.
class LoggerOptions {
 public:
  static LogSeverity GetMinimumLogSeverity() { return Minimum(); }
  // Returns the one that was set before.
  static LogSeverity SetMinimumLogSeverity(LogSeverity severity) {
    const LogSeverity before = Minimum();
    Minimum() = severity;
    return before;
  }

 private:
  static LogSeverity& Minimum() {
    static LogSeverity minimum = TFLITE_LOG_INFO;
    return minimum;
  }
};

}  // namespace tflite

#endif
