//! Mfcc: the custom operator that makes of a spectrogram its mel-frequency cepstral coefficients, which describe sounds as
//! ears tell them apart.
//!
//! The magnitudes of each moment are summed by `filterbank_channel_count` triangular filters between
//! `lower_frequency_limit` and `upper_frequency_limit`, evenly spaced in mel: `1127 ln(1 + f / 700)`. The logarithms of the
//! sums, of which none is below 1e-12, are transformed by a cosine transform (type 2, scaled by `√(2 / n)`), of which
//! `dct_coefficient_count` coefficients are kept. Sums are in 64 bits. Source: the operator of TensorFlow, which follows
//! the Hidden Markov Model Toolkit.

use std::f64::consts::PI;

use attache_base::{DataType, Shape};
use attache_graph::{Eval, Inferred, OpError, WorkingMemory};
use attache_model::{FlexMap, FlexScalar};

use crate::shared::support::{countable, only, product};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Custom("Mfcc"),
    versions: 1..=1,
    inputs: &[input("spectrogram").float(), input("sample_rate").of(&[DataType::Int32])],
    parse,
}];

/// The least sum of a filter.
const FLOOR: f64 = 1e-12;

#[derive(Debug)]
struct Mfcc {
    /// The frequencies in hertz between which the filters lie.
    limits: [f64; 2],
    filters: usize,
    coefficients: usize,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let bytes = declaration.operator.custom_options.as_deref().ok_or_else(|| declaration.no_options())?;
    let map = FlexMap::read(bytes).ok_or_else(|| OpError::invalid("its options are no map in a FlexBuffer"))?;
    let real = |name: &str| match map.get(name) {
        Some(FlexScalar::Int(value)) => Ok(value as f64),
        Some(FlexScalar::Float(value)) if value.is_finite() => Ok(value),
        other => Err(OpError::invalid(format!("{name} is {other:?}; it must be a number"))),
    };
    let count = |name: &str| {
        let value = real(name)?;
        let valid = (1.0..=f64::from(i32::MAX)).contains(&value);
        valid
            .then_some(value as usize)
            .ok_or_else(|| OpError::invalid(format!("{name} is {value}; it must be at least 1")))
    };
    // As in TensorFlow Lite, fractions of hertz do not count.
    let limits = [real("lower_frequency_limit")?.trunc(), real("upper_frequency_limit")?.trunc()];
    if limits[0] < 0.0 || limits[1] <= limits[0] {
        return Err(OpError::invalid(format!("frequencies from {} to {} hertz", limits[0], limits[1])));
    }
    let (filters, coefficients) = (count("filterbank_channel_count")?, count("dct_coefficient_count")?);
    if coefficients > filters {
        return Err(OpError::invalid(format!("{coefficients} coefficients of {filters} filters; there are fewer")));
    }
    Ok(Box::new(Mfcc { limits, filters, coefficients }))
}

fn mel(frequency: f64) -> f64 {
    1127.0 * (frequency / 700.0).ln_1p()
}

/// The part of a frequency in the filters: its weight in the falling half of the filter before it, whose index counts from
/// one; the rest belongs to the rising half of the next one.
type Part = (usize, f64);

/// The filters for frequencies of a spectrogram.
struct Bank {
    /// The first frequency that a filter takes.
    first: usize,
    /// The parts of the frequencies from the first to the last one that a filter takes.
    parts: Vec<Part>,
}

impl Bank {
    /// Prepares the filters for `count` frequencies from zero to half of the rate.
    fn new(mfcc: &Mfcc, count: usize, rate: i32) -> Result<Self, OpError> {
        let [lower, upper] = mfcc.limits;
        let step = 0.5 * f64::from(rate) / (count as f64 - 1.0);
        // The constant part is left out.
        let (first, last) = ((1.5 + lower / step) as usize, (upper / step) as usize);
        if rate <= 0 || count < 2 || last >= count {
            let reason = format!("{count} frequencies at a rate of {rate} hertz do not reach {upper} hertz");
            return Err(OpError::invalid(reason));
        }
        let (low, spacing) = (mel(lower), (mel(upper) - mel(lower)) / (mfcc.filters as f64 + 1.0));
        let center = |index: usize| low + spacing * index as f64;
        let mut before = 0;
        let part = |index: usize| {
            let place = mel(index as f64 * step);
            while before < mfcc.filters && center(before + 1) < place {
                before += 1;
            }
            (before, (center(before + 1) - place) / (center(before + 1) - center(before)))
        };
        Ok(Self { first, parts: (first..=last).map(part).collect() })
    }

    /// Sums the magnitudes, of which the squares are given, into the filters.
    fn sum(&self, squares: &[f32], sums: &mut [f64]) {
        sums.fill(0.0);
        for ((before, weight), square) in self.parts.iter().zip(squares.get(self.first..).unwrap_or_default()) {
            let value = f64::from(*square).sqrt();
            let weighted = value * weight;
            if let Some(sum) = before.checked_sub(1).and_then(|filter| sums.get_mut(filter)) {
                *sum += weighted;
            }
            if let Some(sum) = sums.get_mut(*before) {
                *sum += value - weighted;
            }
        }
    }
}

impl Operator for Mfcc {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [spectrogram, rate] = inputs.required();
        if let Some(shape) = rate.shape.as_ref().filter(|shape| shape.checked_elements() != Some(1)) {
            return Err(OpError::invalid(format!("a sample rate of shape {shape}; it must be one number")));
        }
        let Some(shape) = &spectrogram.shape else { return Ok(vec![Inferred::unknown(DataType::Float32)]) };
        let [channels, moments, _] = *shape.extents() else {
            return Err(OpError::invalid(format!("its spectrogram of shape {shape} is not of rank 3")));
        };
        Ok(vec![Inferred::new(DataType::Float32, countable([channels, moments, self.coefficients].into())?)])
    }

    fn working_memory(&self, inputs: Facts<'_>, _: &[&Shape]) -> Option<WorkingMemory> {
        let frequencies = inputs.fact(0).shape.as_ref()?.last().copied()?;
        let cosines = product(&[self.filters, self.coefficients, 8]);
        Some(WorkingMemory { kept: 0, scratch: cosines.saturating_add(product(&[frequencies + self.filters, 16])) })
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        let cosines = product(outputs.first()?).saturating_mul(self.filters as u64);
        Some(cosines.saturating_add(product(inputs.first().copied()??)))
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (spectrogram, rate) = (eval.input(0)?, only::<i32>(eval.input(1)?)?);
        let frequencies = spectrogram.shape.last().copied().unwrap_or(0);
        let bank = Bank::new(self, frequencies, rate)?;
        let (filters, scale) = (self.filters as f64, (2.0 / self.filters as f64).sqrt());
        let cosine = |place: usize| {
            let (coefficient, filter) = (place / self.filters, place % self.filters);
            scale * (coefficient as f64 * (PI / filters) * (filter as f64 + 0.5)).cos()
        };
        let cosines: Vec<f64> = (0..self.coefficients * self.filters).map(cosine).collect();
        let mut sums = vec![0.0; self.filters];
        let rows = spectrogram.values::<f32>()?.chunks_exact(frequencies);
        for (squares, output) in rows.zip(eval.outputs[0].values::<f32>()?.chunks_exact_mut(self.coefficients)) {
            bank.sum(squares, &mut sums);
            // What is not a number stays so.
            sums.iter_mut().for_each(|sum| *sum = if *sum < FLOOR { FLOOR } else { *sum }.ln());
            for (to, cosines) in output.iter_mut().zip(cosines.chunks_exact(self.filters)) {
                *to = cosines.iter().zip(&sums).map(|(cosine, sum)| cosine * sum).sum::<f64>() as f32;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_share_what_lies_between_them() {
        let mfcc = Mfcc { limits: [20.0, 4000.0], filters: 10, coefficients: 5 };
        let bank = Bank::new(&mfcc, 129, 8000).unwrap();
        assert_eq!((bank.first, bank.first + bank.parts.len()), (2, 129));
        assert!(bank.parts.iter().all(|(before, weight)| *before <= 10 && (-1e-9..=1.0 + 1e-9).contains(weight)));
        let mut sums = vec![0.0; 10];
        bank.sum(&vec![4.0; 129], &mut sums);
        assert!(sums.iter().all(|sum| *sum > 0.0) && sums.is_sorted());
        assert!(Bank::new(&mfcc, 129, 7000).is_err() && Bank::new(&mfcc, 1, 8000).is_err());
        assert!(Bank::new(&mfcc, 129, -1).is_err());
        // No frequency lies between these limits.
        let mfcc = Mfcc { limits: [8600.0, 8900.0], filters: 3, coefficients: 2 };
        let mut sums = [1.0; 3];
        Bank::new(&mfcc, 9, 16_000).unwrap().sum(&[4.0; 9], &mut sums);
        assert_eq!(sums, [0.0; 3]);
    }
}
