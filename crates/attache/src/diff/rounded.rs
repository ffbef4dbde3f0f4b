//! Measures how sensitive a graph is to rounding, by repeating the run on the CPU with all float inputs and
//! results of operators rounded to f16.
//!
//! If this rounding moves an output beyond a tolerance, a device that stores f16 cannot be expected to meet
//! the tolerance.

use std::collections::HashMap;

use attache_base::DataType;
use attache_graph::TensorId;
use half::f16;

use super::{Difference, Trace};
use crate::Error;

impl Trace {
    /// Returns the largest magnitude of all finite f32 elements in the run, including the inputs. Differences
    /// inside the graph can be judged relative to it.
    #[must_use]
    pub fn magnitude(&self) -> f64 {
        let floats = self.tensors().filter(|id| self.graph.fact(*id).data_type == DataType::Float32);
        let values = floats.filter_map(|id| super::numbers(DataType::Float32, self.value(id)?.1)).flatten();
        values.filter(|value| value.is_finite()).fold(0.0, |most, value| most.max(value.abs()))
    }

    /// Measures how much each output changes on the CPU if the graph's inputs and the outputs of all
    /// operators are rounded to f16. Outputs without a value in the run, such as constants, are left out.
    ///
    /// # Errors
    ///
    /// If one of the runs on the CPU fails.
    pub fn rounding_differences(&self) -> Result<Vec<Difference>, Error> {
        let mut values: HashMap<TensorId, Vec<u8>> = HashMap::new();
        for id in &self.graph.inputs {
            if let Some((_, bytes)) = self.value(*id) {
                values.insert(*id, rounded(self.graph.fact(*id).data_type, bytes));
            }
        }
        for node in 0..self.nodes() {
            for (id, bytes) in self.run_node(node, &values)? {
                values.insert(id, rounded(self.graph.fact(id).data_type, &bytes));
            }
        }
        let difference = |id: &TensorId| {
            let (_, reference) = self.value(*id)?;
            Difference::of(self.graph.fact(*id).data_type, reference, values.get(id)?)
        };
        Ok(self.graph.outputs.iter().filter_map(difference).collect())
    }
}

/// Rounds f32 elements to the nearest f16 and converts them back to f32. Returns elements of other types
/// unchanged.
fn rounded(data_type: DataType, bytes: &[u8]) -> Vec<u8> {
    if data_type != DataType::Float32 {
        return bytes.to_vec();
    }
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().flat_map(|word| f16::from_f32(f32::from_ne_bytes(*word)).to_f32().to_ne_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_alone_are_rounded() {
        let bytes: Vec<u8> = [1.0f32, 1.0 / 3.0, 1e6].iter().flat_map(|float| float.to_ne_bytes()).collect();
        let found = super::super::numbers(DataType::Float32, &rounded(DataType::Float32, &bytes)).unwrap();
        assert_eq!(found, [1.0, 0.333_251_953_125, f64::INFINITY]);
        assert_eq!(rounded(DataType::Int32, &bytes), bytes);
    }
}
