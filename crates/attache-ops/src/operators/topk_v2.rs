//! TOPK_V2: the largest elements along the last axis in descending order, and their indices. Of equal
//! elements the one with the lowest index comes first.

use attache_base::{DataType, Shape};
use attache_gpu_ir::Primitive;
use attache_graph::{Eval, Inferred, Lowering, OpError, TensorMut, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::support::{float_key, single};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::TOPK_V2),
    versions: 1..=3,
    inputs: &[input("input").of(&TYPES), input("k").of(&[DataType::Int32, DataType::Int64, DataType::Int16])],
    parse,
}];

/// Supported element types.
const TYPES: [DataType; 6] =
    [DataType::Float32, DataType::Int32, DataType::Int64, DataType::Int8, DataType::UInt8, DataType::Int16];

/// TOPK_V2, which has no attributes. Inputs: elements, and the number of elements to select. Outputs: the
/// selected elements and their indices.
#[derive(Debug)]
struct TopKV2 {
    /// The type of the indices: INT32, or INT16.
    places: DataType,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    match declaration.outputs.get(1).map(|places| places.data_type) {
        Some(places @ (DataType::Int32 | DataType::Int16)) => Ok(Box::new(TopKV2 { places })),
        None => Ok(Box::new(TopKV2 { places: DataType::Int32 })),
        Some(other) => Err(OpError::unsupported(format!("places of type {other} are not implemented"))),
    }
}

/// Returns the shape of both outputs, from the input's shape and the requested number of elements.
fn output(shape: &Shape, count: &[i64]) -> Result<Shape, OpError> {
    let (mut extents, count) = (shape.to_vec(), single(count)?);
    let wrong = || OpError::invalid(format!("{count} elements of the last axis of {shape}"));
    let last = extents.last_mut().ok_or_else(wrong)?;
    *last = usize::try_from(count).ok().filter(|count| count <= last).ok_or_else(wrong)?;
    Ok(extents.into())
}

/// An element's rank among those of its row: ascending ranks are descending elements, and equal elements are ranked by
/// their places.
type Rank = (i64, usize);

/// Writes the first `count` elements of each row in descending order, and their places. Rows have `depth` elements. The
/// smaller of two elements has the smaller `key`.
fn largest<T: Copy>(
    (input, depth): (&[T], usize),
    count: usize,
    key: impl Fn(T) -> i64,
    (values, places): (&mut [T], &mut [i32]),
) {
    let mut ranks: Vec<Rank> = Vec::with_capacity(depth);
    for (row, elements) in input.chunks_exact(depth).enumerate() {
        ranks.clear();
        ranks.extend(elements.iter().map(|element| !key(*element)).zip(0..));
        sort_first(&mut ranks, count);
        for (at, (_, place)) in (row * count..).zip(&ranks[..count]) {
            (values[at], places[at]) = (elements[*place], *place as i32);
        }
    }
}

/// Moves the `count` smallest ranks to the front, in ascending order.
fn sort_first(ranks: &mut [Rank], count: usize) {
    if count < ranks.len() {
        ranks.select_nth_unstable(count);
    }
    ranks[..count].sort_unstable();
}

/// Selects the elements of `$input`, which are of type `$type`, and writes both outputs.
macro_rules! run {
    ($type:ty, $input:expr, $outputs:expr, $key:expr) => {{
        let (values, places): (&mut TensorMut<'_>, &mut [i32]) = $outputs;
        let (depth, count) = ($input.shape[$input.shape.rank() - 1], values.shape[values.shape.rank() - 1]);
        let outputs = (values.values::<$type>()?, places);
        largest(($input.values::<$type>()?, depth), count, $key, outputs);
    }};
}

impl Operator for TopKV2 {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let shape = match (&input.shape, inputs.integers(1)?) {
            (Some(shape), Some(count)) => Some(output(shape, &count)?),
            _ => None,
        };
        let inferred = |data_type| Inferred { data_type, shape: shape.clone() };
        Ok(vec![inferred(input.data_type), inferred(self.places)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        let outputs: &mut [TensorMut<'_>] = &mut eval.outputs;
        let [values, output] = outputs else { return Err(OpError::invalid("it has two outputs")) };
        let mut narrow = vec![0; if self.places == DataType::Int16 { output.shape.elements() } else { 0 }];
        let places = if self.places == DataType::Int16 { &mut narrow[..] } else { output.values()? };
        match input.data_type {
            DataType::Int32 => run!(i32, input, (values, places), i64::from),
            DataType::Int64 => run!(i64, input, (values, places), i64::from),
            DataType::Int8 => run!(i8, input, (values, places), i64::from),
            DataType::Int16 => run!(i16, input, (values, places), i64::from),
            DataType::UInt8 => run!(u8, input, (values, places), i64::from),
            _ => run!(f32, input, (values, places), float_key),
        }
        if self.places == DataType::Int16 {
            output.values::<i16>()?.iter_mut().zip(narrow).for_each(|(place, wide)| *place = wide as i16);
        }
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        lowering.use_stored(); // places are numbers, whatever their scale is
        let (input, shape) = (lowering.input(0)?, lowering.output_shape(0)?);
        let count = shape.last().copied().ok_or_else(|| Unsupported::new("a scalar has no axis to sort"))?;
        for (index, value) in lowering.emit_all(Primitive::TopK { count }, &[input])?.into_iter().enumerate() {
            lowering.output(index, value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equals_comes_first() {
        let (mut values, mut places) = ([0.0; 6], [0; 6]);
        let input = [1.0, 3.0, 3.0, 2.0, -0.0, 0.0, f32::NAN, -1.0];
        largest((&input, 4), 3, float_key, (&mut values, &mut places));
        assert_eq!((&values[..3], places), (&[3.0, 3.0, 2.0][..], [1, 2, 3, 2, 0, 1]));
    }

    #[test]
    fn there_are_no_more_than_the_axis_has() {
        assert_eq!(output(&[2, 3].into(), &[2]).unwrap(), Shape::from([2, 2]));
        assert_eq!(output(&[2, 3].into(), &[0]).unwrap(), Shape::from([2, 0]));
        for count in [4, -1] {
            assert!(output(&[2, 3].into(), &[count]).is_err());
        }
        assert!(output(&Shape::default(), &[0]).is_err());
        assert!(output(&[2, 3].into(), &[]).is_err());
    }
}
