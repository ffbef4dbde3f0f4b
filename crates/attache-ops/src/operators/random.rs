//! RANDOM_UNIFORM, RANDOM_STANDARD_NORMAL and MULTINOMIAL: random numbers of the generator Philox, which continue from run to
//! run. Two seeds make them the same in each interpreter; without seeds they differ.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use attache_base::{Constant, DataType, Shape};
use attache_graph::{Eval, Inferred, OpError, PassedTensor};
use attache_model::schema::BuiltinOperator;

use crate::shared::random_bits::philox;
use crate::shared::support::{countable, single};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[
    Definition {
        code: Code::Builtin(BuiltinOperator::MULTINOMIAL),
        versions: 1..=1,
        inputs: &[input("logits").of(&[DataType::Float32]), input("num_samples").of(&[DataType::Int32])],
        parse: |declaration| match declaration.outputs.first().map(|output| output.data_type) {
            Some(data_type @ (DataType::Int32 | DataType::Int64)) => {
                Ok(Box::new(Multinomial { generator: Generator::parse(declaration)?, data_type }))
            }
            _ => Err(OpError::unsupported("classes that are neither of type INT32 nor of type INT64")),
        },
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::RANDOM_STANDARD_NORMAL),
        versions: 1..=1,
        inputs: SHAPE,
        parse: |declaration| random(declaration, normals),
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::RANDOM_UNIFORM),
        versions: 1..=1,
        inputs: SHAPE,
        parse: |declaration| random(declaration, |bits| bits.map(uniform)),
    },
];

const SHAPE: &[crate::Input] = &[input("shape").of(&[DataType::Int32])];

/// The container of the resource variables in which interpreters keep how far generators have come. No file names it so.
const CONTAINER: &str = "\u{0}random";

/// A generator with the seeds of the options.
#[derive(Debug)]
struct Generator {
    seeds: [u64; 2],
    /// The name of the variable with the seeds and the counter, which no other operator of the model has.
    name: String,
}

/// The numbers of a generator in one run.
struct Numbers {
    seeds: [u64; 2],
    counter: u64,
}

impl Generator {
    fn parse(declaration: &Declaration<'_>) -> Result<Self, OpError> {
        let options = declaration.options.builtin_options_as_random_options();
        let options = options.ok_or_else(|| declaration.no_options())?;
        // Of the seeds, TensorFlow Lite takes the lower 32 bits with their sign.
        let [seed, other] = [options.seed(), options.seed2()].map(|seed| i64::from(seed as i32) as u64);
        // The address of the operator in the model stays the same for all shapes.
        let name = format!("{:p}", declaration.operator);
        Ok(Self { seeds: [seed, other], name })
    }

    /// Calls `draw` with the numbers that follow those of the last run.
    fn continued<T>(&self, eval: &mut Eval<'_>, draw: impl FnOnce(&mut Numbers) -> T) -> Result<T, OpError> {
        let handle = eval.host.variable_handle(CONTAINER, &self.name)?;
        let kept = eval.host.variable(handle)?.and_then(|value| value.to_constant().integers());
        let mut numbers = match kept.as_deref() {
            Some(&[seed, other, counter]) => Numbers { seeds: [seed as u64, other as u64], counter: counter as u64 },
            _ if self.seeds == [0, 0] => {
                let seed = |number: u8| {
                    let mut hasher = RandomState::new().build_hasher();
                    hasher.write_u8(number);
                    hasher.finish()
                };
                Numbers { seeds: [seed(0), seed(1)], counter: 0 }
            }
            _ => Numbers { seeds: self.seeds, counter: 0 },
        };
        let made = draw(&mut numbers);
        let [seed, other] = numbers.seeds.map(|seed| seed as i64);
        let kept = Constant::from_values([3], &[seed, other, numbers.counter as i64]);
        let kept = PassedTensor::from_constant(&kept);
        eval.host.set_variable(handle, kept.ok_or_else(|| OpError::out_of_memory("the state of a generator"))?)?;
        Ok(made)
    }
}

impl Numbers {
    /// Returns the next four words.
    fn next(&mut self) -> [u32; 4] {
        let counter = u128::from(self.seeds[1]) << 64 | u128::from(self.counter);
        self.counter = self.counter.wrapping_add(1);
        philox(counter, self.seeds[0])
    }
}

/// Returns a number from 0 to 1, with the lowest 23 bits of a word as its fraction.
fn uniform(word: u32) -> f32 {
    f32::from_bits(0x3f80_0000 | word & 0x7f_ffff) - 1.0
}

/// Returns four numbers of the standard normal distribution. Source: Box and Muller.
fn normals(words: [u32; 4]) -> [f32; 4] {
    let pair = |first: u32, second: u32| {
        let angle = 2.0 * std::f32::consts::PI * uniform(second);
        let radius = (-2.0 * uniform(first).max(1e-7).ln()).sqrt();
        [angle.sin() * radius, angle.cos() * radius]
    };
    let ([a, b], [c, d]) = (pair(words[0], words[1]), pair(words[2], words[3]));
    [a, b, c, d]
}

/// Returns a number from 0 to 1 of 64 bits, with the lowest 52 bits of two words as its fraction.
fn double(high: u32, low: u32) -> f64 {
    f64::from_bits(1023 << 52 | u64::from(high & 0xf_ffff) << 32 | u64::from(low)) - 1.0
}

/// RANDOM_UNIFORM or RANDOM_STANDARD_NORMAL.
#[derive(Debug)]
struct Random {
    generator: Generator,
    /// The numbers for four random words.
    numbers: fn([u32; 4]) -> [f32; 4],
}

fn random(declaration: &Declaration<'_>, numbers: fn([u32; 4]) -> [f32; 4]) -> Parsed {
    Ok(Box::new(Random { generator: Generator::parse(declaration)?, numbers }))
}

impl Operator for Random {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        if inputs.fact(0).shape.as_ref().is_some_and(|shape| shape.rank() != 1) {
            return Err(OpError::invalid("input 0 (shape) is not a list"));
        }
        let Some(extents) = inputs.integers(0)? else { return Ok(vec![Inferred::unknown(DataType::Float32)]) };
        let shape = Shape::from_signed(&extents).ok_or_else(|| OpError::invalid(format!("{extents:?} is no shape")))?;
        Ok(vec![Inferred::new(DataType::Float32, countable(shape)?)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let count = eval.outputs[0].shape.elements().div_ceil(4);
        let words = self.generator.continued(eval, |numbers| (0..count).map(|_| numbers.next()).collect::<Vec<_>>())?;
        for (output, words) in eval.outputs[0].values::<f32>()?.chunks_mut(4).zip(words) {
            output.copy_from_slice(&(self.numbers)(words)[..output.len()]);
        }
        Ok(())
    }

    fn has_side_effects(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct Multinomial {
    generator: Generator,
    /// The type of the classes that are drawn.
    data_type: DataType,
}

/// Returns, for each class, the sum of the weights up to it, with the largest weight as 1.
fn sums(logits: &[f32]) -> Vec<f64> {
    let finite = || logits.iter().filter(|logit| logit.is_finite());
    let largest = f64::from(finite().copied().fold(f32::MIN, f32::max));
    let weight = |logit: &f32| if logit.is_finite() { (f64::from(*logit) - largest).exp() } else { 0.0 };
    logits
        .iter()
        .scan(0.0, |sum, logit| {
            *sum += weight(logit);
            Some(*sum)
        })
        .collect()
}

impl Operator for Multinomial {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [logits, count] = inputs.required();
        if let Some(shape) = logits.shape.as_ref().filter(|shape| shape.rank() != 2 || shape[1] == 0) {
            return Err(OpError::invalid(format!("logits of shape {shape}; they must be rows of classes")));
        }
        if count.shape.as_ref().is_some_and(|shape| shape.rank() != 0) {
            return Err(OpError::invalid("input 1 (num_samples) is not a scalar"));
        }
        let shape = match (&logits.shape, inputs.integers(1)?) {
            (Some(shape), Some(count)) => {
                let count = single(&count)?;
                let count = usize::try_from(count).map_err(|_| OpError::invalid(format!("{count} samples")))?;
                Some(countable([shape[0], count].into())?)
            }
            _ => None,
        };
        Ok(vec![Inferred { data_type: self.data_type, shape }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let logits = eval.input(0)?;
        let (classes, count) = (logits.shape[1], eval.outputs[0].shape[1]);
        let rows = logits.values::<f32>()?.chunks_exact(classes);
        // Rows continue with the numbers of the row before. A run takes so many groups of words, most of them in vain: those
        // that TensorFlow reserves for it.
        let reserved = (logits.shape[0] * count.div_ceil(4) * 4) as u64 * 2 * 256;
        let drawn = self.generator.continued(eval, |numbers| {
            let (first, mut left) = (numbers.counter, None);
            let mut drawn = Vec::new();
            for row in rows {
                let sums = sums(row);
                let total = sums[classes - 1];
                for _ in 0..count {
                    let number = left.take().unwrap_or_else(|| {
                        let [a, b, c, d] = numbers.next();
                        left = Some(double(c, d));
                        double(a, b)
                    });
                    drawn.push(sums.partition_point(|sum| *sum <= number * total).min(classes - 1));
                }
            }
            numbers.counter = first.wrapping_add(reserved);
            drawn
        })?;
        match self.data_type {
            DataType::Int64 => {
                let output = eval.outputs[0].values::<i64>()?.iter_mut();
                output.zip(drawn).for_each(|(output, class)| *output = class as i64);
            }
            _ => {
                let output = eval.outputs[0].values::<i32>()?.iter_mut();
                output.zip(drawn).for_each(|(output, class)| *output = class as i32);
            }
        }
        Ok(())
    }

    fn has_side_effects(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lie_between_their_bounds() {
        assert_eq!((uniform(0), double(0, 0)), (0.0, 0.0));
        assert!(uniform(u32::MAX) < 1.0 && double(u32::MAX, u32::MAX) < 1.0);
        assert!(normals([0; 4]).iter().all(|number| number.is_finite()));
    }

    #[test]
    fn impossible_classes_have_no_weight() {
        assert_eq!(sums(&[0.0, f32::NEG_INFINITY, 0.0, f32::NAN]), [1.0, 1.0, 2.0, 2.0]);
    }
}
