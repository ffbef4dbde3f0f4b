//! Explains differences of models with dynamic range quantization: the CPU quantizes float activations at run
//! time, as TensorFlow Lite does, and the GPU computes with the floats.

use std::collections::BTreeSet;

use attache::model::Subgraph;

use crate::inspect::kind::{self, Kind};

/// Largest difference of such models from the CPU that is expected of a GPU, relative to an output's largest value.
pub(in crate::commands) const EXPECTED: f64 = 0.05;

/// The operators of a subgraph with dynamic range quantization (float activations, 8-bit weights), by their
/// index.
pub(in crate::commands) struct Hybrid(BTreeSet<usize>);

impl Hybrid {
    pub(in crate::commands) fn of(subgraph: &Subgraph) -> Self {
        let all = subgraph.operators.iter().enumerate();
        let is_hybrid = |operator| kind::of_operator(subgraph, operator) == Some(Kind::DynamicRange);
        Self(all.filter(|(_, operator)| is_hybrid(operator)).map(|(index, _)| index).collect())
    }

    pub(super) fn contains(&self, operator: usize) -> bool {
        self.0.contains(&operator)
    }

    pub(in crate::commands) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the explanation of differences; `None` if no operator is of this kind.
    pub(super) fn explanation(&self) -> Option<String> {
        let operators = match self.count() {
            0 => return None,
            1 => "1 operator has".to_owned(),
            count => format!("{count} operators have"),
        };
        Some(format!(
            "{operators} dynamic range quantization (float activations, 8-bit weights): the CPU rounds their inputs to 8 \
            bits at run time, as TensorFlow Lite does, and the GPU computes with the floats and is the more precise one. \
            Differences of up to some percent are expected; --tolerance {EXPECTED} allows {:.0} %",
            100.0 * EXPECTED
        ))
    }
}

#[cfg(test)]
mod tests {
    use attache::model::schema::BuiltinOperator;
    use attache::{Bytes, DataType, Model, ModelBuilder, OperatorBuilder, Quantization, TensorBuilder};

    use super::*;

    fn model(weights: DataType) -> Model {
        let mut builder = ModelBuilder::new("dense");
        let main = builder.subgraph("main");
        let quantization = Quantization { scale: vec![0.5], zero_point: vec![0], axis: 0 };
        let bytes = vec![0; weights.byte_size(4).unwrap()];
        let w = TensorBuilder::new("w", weights, [2, 2]).data(Bytes::from_vec(bytes));
        let w = if weights == DataType::Int8 { w.quantization(&quantization) } else { w };
        let w = builder.tensor(main, w);
        let x = builder.tensor(main, TensorBuilder::new("x", DataType::Float32, [1, 2]));
        let y = builder.tensor(main, TensorBuilder::new("y", DataType::Float32, [1, 2]));
        builder.operator(main, OperatorBuilder::new(BuiltinOperator::FULLY_CONNECTED, [x, w], [y]));
        builder.inputs(main, &[x]).outputs(main, &[y]);
        Model::from_bytes(builder.finish()).unwrap()
    }

    #[test]
    fn only_float_activations_with_stored_integers_are_explained() {
        let hybrid = Hybrid::of(&model(DataType::Int8).subgraphs()[0]);
        assert!(hybrid.contains(0) && hybrid.explanation().unwrap().starts_with("1 operator has dynamic range"));
        assert_eq!(Hybrid::of(&model(DataType::Float32).subgraphs()[0]).explanation(), None);
    }
}
