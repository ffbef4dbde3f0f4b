//! EMBEDDING_LOOKUP_SPARSE: weighted sums of rows of a table. The rows and weights are the elements of a sparse tensor of
//! several axes; those that differ only in the last axis are combined.

use attache_base::{DataType, Shape, strides};
use attache_graph::{Eval, Inferred, OpError};
use attache_model::schema::{BuiltinOperator, CombinerType};

use crate::shared::support::countable;
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::EMBEDDING_LOOKUP_SPARSE),
    versions: 1..=1,
    inputs: &[
        input("ids").of(&[DataType::Int32]),
        input("indices").of(&[DataType::Int32]),
        input("dense_shape").of(&[DataType::Int32]),
        input("weights").float(),
        input("params").float(),
    ],
    parse,
}];

/// By what sums are divided.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Combiner {
    Nothing,
    /// The sum of the weights.
    Weights,
    /// The root of the sum of the weights' squares.
    RootOfSquares,
}

#[derive(Debug)]
struct EmbeddingLookupSparse {
    combiner: Combiner,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_embedding_lookup_sparse_options();
    let combiner = match options.ok_or_else(|| declaration.no_options())?.combiner() {
        CombinerType::SUM => Combiner::Nothing,
        CombinerType::MEAN => Combiner::Weights,
        CombinerType::SQRTN => Combiner::RootOfSquares,
        other => return Err(OpError::invalid(format!("combiner {} is none of those from 0 to 2", other.0))),
    };
    Ok(Box::new(EmbeddingLookupSparse { combiner }))
}

/// The weights of a sum so far.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    target: usize,
    weights: f32,
    squares: f32,
}

impl EmbeddingLookupSparse {
    /// Divides the sum of a group as the combiner says.
    fn finish(&self, group: Group, output: &mut [f32], length: usize) {
        let divisor = match self.combiner {
            Combiner::Nothing => return,
            Combiner::Weights => group.weights,
            Combiner::RootOfSquares => group.squares.sqrt(),
        };
        let factor = 1.0 / divisor;
        output[group.target * length..][..length].iter_mut().for_each(|value| *value *= factor);
    }
}

/// Checks that ids, indices and weights have one element each, and that the table has rows.
fn check(shapes: [&Shape; 5]) -> Result<(), OpError> {
    let [ids, indices, dense, weights, table] = shapes.map(|shape| shape.extents());
    match (ids, indices, dense, weights) {
        (&[count], &[rows, axes], &[rank], &[others])
            if count == rows && count == others && axes == rank && rank > 0 && table.len() >= 2 =>
        {
            Ok(())
        }
        _ => Err(OpError::invalid(format!("inputs of shapes {shapes:?} do not fit"))),
    }
}

fn output(dense: &[i64], table: &Shape) -> Result<Shape, OpError> {
    let outer = dense.split_last().and_then(|(_, outer)| Shape::from_signed(outer));
    let outer = outer.ok_or_else(|| OpError::invalid(format!("{dense:?} is no shape")))?;
    countable([&outer[..], &table[1..]].concat().into())
}

impl Operator for EmbeddingLookupSparse {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let shapes = inputs.required::<5>().map(|input| input.shape.as_ref());
        let [Some(ids), Some(indices), Some(dense), Some(weights), Some(table)] = shapes else {
            return Ok(vec![Inferred::unknown(DataType::Float32)]);
        };
        check([ids, indices, dense, weights, table])?;
        let shape = inputs.integers(2)?.map(|dense| output(&dense, table)).transpose()?;
        Ok(vec![Inferred { data_type: DataType::Float32, shape }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let [ids, indices, dense, weights, table] =
            [eval.input(0)?, eval.input(1)?, eval.input(2)?, eval.input(3)?, eval.input(4)?];
        check([ids.shape, indices.shape, dense.shape, weights.shape, table.shape])?;
        let (axes, length) = (dense.shape[0], table.shape[1..].iter().product::<usize>());
        let output = &mut eval.outputs[0];
        let outer = output.shape[..axes - 1].to_vec();
        let steps = strides(&outer);
        let (values, rows) = (output.values::<f32>()?, table.values::<f32>()?);
        values.fill(0.0);
        let mut group: Option<Group> = None;
        let elements = ids.values::<i32>()?.iter().zip(weights.values::<f32>()?);
        for ((id, weight), index) in elements.zip(indices.values::<i32>()?.chunks_exact(axes)) {
            let row = usize::try_from(*id).ok().filter(|row| *row < table.shape[0]);
            let row =
                row.ok_or_else(|| OpError::invalid(format!("index {id} in a table of {} rows", table.shape[0])))?;
            let inside =
                |(number, extent): (&i32, &usize)| usize::try_from(*number).ok().filter(|number| number < extent);
            let places = index.iter().zip(&outer).map(inside).collect::<Option<Vec<_>>>();
            let places =
                places.ok_or_else(|| OpError::invalid(format!("index {index:?} does not lie in {outer:?}")))?;
            let target = places.iter().zip(&steps).map(|(place, step)| place * step).sum();
            let mut current = match group {
                Some(group) if group.target == target => group,
                before => {
                    if let Some(before) = before {
                        self.finish(before, values, length);
                    }
                    Group { target, ..Group::default() }
                }
            };
            current.weights += weight;
            current.squares += weight * weight;
            group = Some(current);
            let sums = values[target * length..][..length].iter_mut();
            sums.zip(&rows[row * length..][..length]).for_each(|(sum, value)| *sum += value * weight);
        }
        if let Some(group) = group {
            self.finish(group, values, length);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_has_an_index_and_a_weight() {
        let of = |ids: &[usize], indices: &[usize], dense: &[usize], weights: &[usize], table: &[usize]| {
            check([&ids.into(), &indices.into(), &dense.into(), &weights.into(), &table.into()])
        };
        assert!(of(&[3], &[3, 2], &[2], &[3], &[4, 5]).is_ok());
        assert!(of(&[3], &[2, 2], &[2], &[3], &[4, 5]).is_err());
        assert!(of(&[3], &[3, 2], &[3], &[3], &[4, 5]).is_err());
        assert!(of(&[3], &[3, 2], &[2], &[2], &[4, 5]).is_err());
        assert!(of(&[3], &[3, 2], &[2], &[3], &[4]).is_err());
        assert!(of(&[3], &[3, 0], &[0], &[3], &[4, 5]).is_err());
        assert_eq!(output(&[3, 2], &[4, 5].into()).unwrap(), Shape::from([3, 5]));
        assert!(output(&[-3, 2], &[4, 5].into()).is_err());
    }
}
