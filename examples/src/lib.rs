//! What the examples have in common: their command line ([`Arguments`]), pictures, devices and small models. The tests in the
//! documentation of this crate are those of the README and of the guide.

pub mod chained;
pub mod device;
pub mod models;
pub mod picture;

use std::error::Error;

use attache::{GpuDelegate, GpuDelegateOptions, Interpreter, InterpreterBuilder, Model, zoo};

/// The result of an example: any error, with its text.
pub type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The command line of an example: `[gpu] [FILE]…`.
#[derive(Debug)]
pub struct Arguments {
    /// Whether the GPU is asked for. Without it, models run on the CPU.
    pub gpu: bool,
    files: Vec<String>,
}

impl Arguments {
    /// Reads the command line of the process.
    #[must_use]
    pub fn read() -> Self {
        let (gpu, files): (Vec<String>, _) = std::env::args().skip(1).partition(|argument| argument == "gpu");
        Self { gpu: !gpu.is_empty(), files }
    }

    /// Returns the file with this index, if it was given.
    pub fn file(&self, index: usize) -> Option<&str> {
        self.files.get(index).map(String::as_str)
    }

    /// Loads the model of the first file, or builds the model of the zoo with this name if no file was given.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or the zoo has no such model.
    pub fn model(&self, built_in: &str) -> Result<Model> {
        Ok(match self.file(0) {
            Some(path) => Model::from_path(path)?,
            None => zoo::model(built_in)?,
        })
    }

    /// Creates a builder for an interpreter, with the GPU delegate if the GPU is asked for. What the delegate cannot run
    /// stays on the CPU.
    ///
    /// # Errors
    ///
    /// If the GPU is asked for and there is none.
    pub fn builder(&self, model: &Model) -> Result<InterpreterBuilder> {
        let builder = Interpreter::builder(model);
        if !self.gpu {
            return Ok(builder);
        }
        let gpu = GpuDelegate::new(GpuDelegateOptions::default())?;
        eprintln!("on {}", gpu.adapter().name);
        Ok(builder.delegate(gpu))
    }
}

/// The code of the README and of the guide, which the tests in the documentation compile and run.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../README.md")]
    mod readme {}
    #[doc = include_str!("../../docs/guide/src/introduction.md")]
    mod introduction {}
    #[doc = include_str!("../../docs/guide/src/placement.md")]
    mod placement {}
    #[doc = include_str!("../../docs/guide/src/quantized.md")]
    mod quantized {}
    #[doc = include_str!("../../docs/guide/src/numbers.md")]
    mod numbers {}
    #[doc = include_str!("../../docs/guide/src/shapes_and_state.md")]
    mod shapes_and_state {}
    #[doc = include_str!("../../docs/guide/src/runs.md")]
    mod runs {}
    #[doc = include_str!("../../docs/guide/src/zero_copy.md")]
    mod zero_copy {}
    #[doc = include_str!("../../docs/guide/src/custom_operators.md")]
    mod custom_operators {}
    #[doc = include_str!("../../docs/guide/src/delegates.md")]
    mod delegates {}
    #[doc = include_str!("../../docs/guide/src/deployment.md")]
    mod deployment {}
    #[doc = include_str!("../../docs/guide/src/from_tensorflow_lite.md")]
    mod from_tensorflow_lite {}
}
