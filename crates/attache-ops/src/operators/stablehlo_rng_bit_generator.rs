//! STABLEHLO_RNG_BIT_GENERATOR: random bits that follow from a state, and the state after them.
//!
//! The state is a key and a counter of 64 bits, for Philox with the upper half of the counter behind it; where that is left
//! out, it is the key. The counter's lower half alone advances, by one for each group of words.

use attache_base::{DataType, Shape};
use attache_graph::{Eval, Inferred, OpError};
use attache_model::schema::{BuiltinOperator, RngAlgorithm};

use crate::definition::one_of;
use crate::shared::random_bits::{philox, threefry};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::STABLEHLO_RNG_BIT_GENERATOR),
    versions: 1..=1,
    inputs: &[input("initial_state").of(&[DataType::UInt64])],
    parse,
}];

#[derive(Debug)]
struct RngBitGenerator {
    /// Whether the generator is Threefry rather than Philox.
    is_threefry: bool,
    /// The type and shape of the random integers, which the file states.
    output: Inferred,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_2_as_stablehlo_rng_bit_generator_options();
    let is_threefry = match options.ok_or_else(|| declaration.no_options())?.algorithm() {
        RngAlgorithm::DEFAULT | RngAlgorithm::PHILOX => false,
        RngAlgorithm::THREEFRY => true,
        other => return Err(OpError::invalid(format!("algorithm {} is none of those from 0 to 2", other.0))),
    };
    let [_, output] = &declaration.outputs[..] else { return Err(OpError::invalid("it has two outputs")) };
    let types = [DataType::Int32, DataType::Int64, DataType::UInt32, DataType::UInt64];
    one_of("output 1", output.data_type, &types)?;
    Ok(Box::new(RngBitGenerator { is_threefry, output: output.clone() }))
}

impl RngBitGenerator {
    fn check(&self, state: &Shape) -> Result<(), OpError> {
        let fits = match self.is_threefry {
            true => state.extents() == [2],
            false => matches!(state.extents(), [2 | 3]),
        };
        if fits { Ok(()) } else { Err(OpError::invalid(format!("a state of shape {state}"))) }
    }
}

impl Operator for RngBitGenerator {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let state = inputs.fact(0);
        state.shape.as_ref().map(|shape| self.check(shape)).transpose()?;
        Ok(vec![Inferred { data_type: DataType::UInt64, shape: state.shape.clone() }, self.output.clone()])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let state = eval.input(0)?;
        self.check(state.shape)?;
        let state = state.values::<u64>()?;
        let [after, output] = &mut eval.outputs[..] else { return Err(OpError::invalid("it has two outputs")) };
        let (key, upper) = (state[0], state.get(2).copied().unwrap_or(state[0]));
        let mut counter = state[1];
        let group = if self.is_threefry { 8 } else { 16 };
        for bytes in output.bytes.chunks_mut(group) {
            let words: &[u32] = match self.is_threefry {
                true => &threefry(counter, key),
                false => &philox(u128::from(upper) << 64 | u128::from(counter), key),
            };
            counter = counter.wrapping_add(1);
            let made = words.iter().flat_map(|word| word.to_le_bytes());
            bytes.iter_mut().zip(made).for_each(|(byte, made)| *byte = made);
        }
        let after = after.values::<u64>()?;
        after.copy_from_slice(state);
        after[1] = counter;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn states_have_two_or_three_words() {
        let infer = |is_threefry, words: usize| {
            let op = RngBitGenerator { is_threefry, output: Inferred::new(DataType::Int32, [5]) };
            DEFINITIONS[0].infer(&op, &[Some(&Fact::new(DataType::UInt64, [words]))])
        };
        assert!(infer(false, 2).is_ok() && infer(false, 3).is_ok() && infer(true, 2).is_ok());
        assert!(infer(false, 4).is_err() && infer(true, 3).is_err());
    }
}
