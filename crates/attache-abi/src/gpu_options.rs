#![allow(unsafe_code)]
//! The options of TensorFlow Lite's GPU delegate, as options of ours.

use std::ffi::c_char;

use attache::GpuDelegateOptions;
use attache::gpu::{InferencePreference, InferencePriority};

use crate::TfLiteGpuDelegateOptionsV2;
use crate::report::text_from_c;

impl TfLiteGpuDelegateOptionsV2 {
    /// Translates the options. Quantized models run with and without `ENABLE_QUANT`, and the device is opened through any
    /// graphics API that there is.
    ///
    /// # Errors
    ///
    /// The text of what is wrong, if a number has no meaning or a text is not UTF-8.
    ///
    /// # Safety
    ///
    /// `serialization_dir` and `model_token` are null or texts that end with a zero byte.
    pub unsafe fn gpu_delegate_options(&self) -> Result<GpuDelegateOptions, String> {
        let preference = match self.inference_preference {
            0 => InferencePreference::FastSingleAnswer,
            1 => InferencePreference::SustainedSpeed,
            2 => InferencePreference::Balanced,
            other => return Err(unknown("inference_preference", other)),
        };
        let options = GpuDelegateOptions::tensorflow_lite()
            .inference_preference(preference)
            .max_delegated_partitions(usize::try_from(self.max_delegated_partitions).unwrap_or(1))
            .enable_serialization(self.experimental_flags & Self::ENABLE_SERIALIZATION != 0);
        let options = match self.is_precision_loss_allowed {
            -1 => options.inference_priorities(
                priority("inference_priority1", self.inference_priority1)?,
                priority("inference_priority2", self.inference_priority2)?,
                priority("inference_priority3", self.inference_priority3)?,
            ),
            allowed => options.is_precision_loss_allowed(allowed != 0),
        };
        // SAFETY: the caller states that these are null or texts.
        let (folder, token) =
            unsafe { (text("serialization_dir", self.serialization_dir)?, text("model_token", self.model_token)?) };
        let options = folder.into_iter().fold(options, GpuDelegateOptions::serialization_dir);
        Ok(token.into_iter().fold(options, GpuDelegateOptions::model_token))
    }
}

/// Returns a text of C; `None` for null.
///
/// # Safety
///
/// The text is null or ends with a zero byte.
unsafe fn text<'a>(name: &str, text: *const c_char) -> Result<Option<&'a str>, String> {
    // SAFETY: the caller states it.
    match unsafe { text_from_c(text) } {
        None if !text.is_null() => Err(format!("{name} is not UTF-8")),
        text => Ok(text),
    }
}

fn priority(name: &str, value: i32) -> Result<InferencePriority, String> {
    match value {
        TfLiteGpuDelegateOptionsV2::PRIORITY_AUTO => Ok(InferencePriority::Auto),
        TfLiteGpuDelegateOptionsV2::PRIORITY_MAX_PRECISION => Ok(InferencePriority::MaxPrecision),
        TfLiteGpuDelegateOptionsV2::PRIORITY_MIN_LATENCY => Ok(InferencePriority::MinLatency),
        TfLiteGpuDelegateOptionsV2::PRIORITY_MIN_MEMORY_USAGE => Ok(InferencePriority::MinMemoryUsage),
        other => Err(unknown(name, other)),
    }
}

fn unknown(name: &str, value: i32) -> String {
    format!("{name} is {value}, which has no meaning")
}
