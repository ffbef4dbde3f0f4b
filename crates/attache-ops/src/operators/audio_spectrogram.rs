//! AudioSpectrogram: the custom operator that makes of sound its frequencies over time.
//!
//! The input has a row for each sample and a column for each channel. For each channel, windows of `window_size` samples
//! begin every `stride` samples. A window is multiplied by a Hann window, `0.5 − 0.5 cos(2πi / window_size)`, extended by
//! zeros to a power of two, and transformed. The output, of shape `[channels, windows, length / 2 + 1]`, has the
//! magnitudes of its frequencies, or their squares with the option `magnitude_squared`. Sums are in 64 bits.

use std::f64::consts::TAU;

use attache_base::{DataType, Shape};
use attache_graph::{Eval, Inferred, OpError, WorkingMemory};
use attache_model::{FlexMap, FlexScalar};

use crate::shared::fourier::Transform;
use crate::shared::support::{countable, product};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Custom("AudioSpectrogram"), versions: 1..=1, inputs: &[input("sound").float()], parse }];

#[derive(Debug)]
struct AudioSpectrogram {
    /// Samples of a window, at least two.
    window: usize,
    /// Samples from the begin of a window to that of the next one.
    stride: usize,
    is_squared: bool,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let bytes = declaration.operator.custom_options.as_deref().ok_or_else(|| declaration.no_options())?;
    let map = FlexMap::read(bytes).ok_or_else(|| OpError::invalid("its options are no map in a FlexBuffer"))?;
    let count = |name: &str, least: i64| {
        let value = match map.get(name) {
            Some(FlexScalar::Int(value)) => value,
            Some(FlexScalar::Float(value)) => value as i64,
            other => return Err(OpError::invalid(format!("{name} is {other:?}; it must be a number"))),
        };
        let valid = (least..=i32::MAX.into()).contains(&value).then(|| usize::try_from(value).ok()).flatten();
        valid.ok_or_else(|| OpError::invalid(format!("{name} is {value}; it must be at least {least}")))
    };
    let is_squared = match map.get("magnitude_squared") {
        None | Some(FlexScalar::Bool(false) | FlexScalar::Int(0)) => false,
        Some(_) => true,
    };
    Ok(Box::new(AudioSpectrogram { window: count("window_size", 2)?, stride: count("stride", 1)?, is_squared }))
}

impl AudioSpectrogram {
    /// Returns the number of samples that are transformed at once.
    fn length(&self) -> usize {
        self.window.next_power_of_two()
    }

    /// Returns the number of windows that fit in so many samples.
    fn windows(&self, samples: usize) -> usize {
        samples.checked_sub(self.window).map_or(0, |rest| 1 + rest / self.stride)
    }

    fn output(&self, sound: &Shape) -> Result<Shape, OpError> {
        match *sound.extents() {
            [samples, channels] => countable([channels, self.windows(samples), self.length() / 2 + 1].into()),
            _ => Err(OpError::invalid(format!("its input of shape {sound} is not a table of samples and channels"))),
        }
    }
}

impl Operator for AudioSpectrogram {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let shape = inputs.fact(0).shape.as_ref().map(|shape| self.output(shape)).transpose()?;
        Ok(vec![Inferred { data_type: DataType::Float32, shape }])
    }

    fn working_memory(&self, _: Facts<'_>, _: &[&Shape]) -> Option<WorkingMemory> {
        // A transformed window, the roots of the transform, and the Hann window.
        Some(WorkingMemory { kept: 0, scratch: product(&[self.length(), 32]) })
    }

    fn multiply_adds(&self, _: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        let depth = u64::from(self.length().ilog2() + 1);
        Some(product(outputs.first()?).saturating_mul(4 * depth))
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let sound = eval.input(0)?;
        let (samples, channels) = (sound.values::<f32>()?, sound.shape.last().copied().unwrap_or(0));
        let transform = Transform::new(self.length());
        let hann = |index: usize| 0.5 - 0.5 * (TAU * index as f64 / self.window as f64).cos();
        let hann: Vec<f64> = (0..self.window).map(hann).collect();
        let (kept, windows) = (self.length() / 2 + 1, self.windows(sound.shape[0]));
        let mut line = vec![[0.0; 2]; self.length()];
        for (row, output) in eval.outputs[0].values::<f32>()?.chunks_exact_mut(kept).enumerate() {
            let (channel, window) = (row / windows, row % windows);
            line.fill([0.0; 2]);
            let read = samples[channel..].iter().step_by(channels).skip(window * self.stride);
            for ((to, sample), factor) in line.iter_mut().zip(read).zip(&hann) {
                *to = [f64::from(*sample) * factor, 0.0];
            }
            transform.run(&mut line);
            for (to, [real, imaginary]) in output.iter_mut().zip(&line) {
                let square = (real * real + imaginary * imaginary) as f32;
                *to = if self.is_squared { square } else { square.sqrt() };
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_lie_within_the_sound() {
        let spectrogram = AudioSpectrogram { window: 5, stride: 3, is_squared: false };
        let windows = |samples: usize| spectrogram.output(&[samples, 2].into()).unwrap();
        assert_eq!(windows(4), Shape::from([2, 0, 5]));
        assert_eq!([5, 7, 8, 11].map(|samples| windows(samples)[1]), [1, 1, 2, 3]);
        assert!(spectrogram.output(&[4].into()).is_err());
    }
}
