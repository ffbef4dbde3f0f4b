//! STABLEHLO_SCATTER: the operand with slices of updates combined into it, one for each index vector. Elements that would lie
//! outside are left out. The function is that of a subgraph: one operator, or none where updates replace elements.

use attache_base::{Shape, strides};
use attache_graph::{Eval, Inferred, OpError};
use attache_model::schema::BuiltinOperator;

use crate::shared::combine::{COMBINABLE, Combinable, with_combinable};
use crate::shared::slices::{SliceAxes, integers_of, vectors};
use crate::shared::support::{elements, elements_mut};
use crate::{Code, Combination, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::STABLEHLO_SCATTER),
    versions: 1..=1,
    inputs: &[input("operand").of(&COMBINABLE), input("scatter_indices").integral(), input("updates").like(0)],
    parse,
}];

#[derive(Debug)]
struct StablehloScatter {
    axes: SliceAxes,
    /// How an element and an update are combined; `None` where updates replace elements.
    combination: Option<Combination>,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_2_as_stablehlo_scatter_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    let body = options.update_computation_subgraph_index();
    let combination = match declaration.returns_second(body) {
        true => None,
        false => Some(declaration.combination(body, super::definitions())?),
    };
    Ok(Box::new(StablehloScatter {
        axes: SliceAxes {
            window: integers_of("update_window_dims", options.update_window_dims())?,
            dropped: integers_of("inserted_window_dims", options.inserted_window_dims())?,
            named: integers_of("scatter_dims_to_operand_dims", options.scatter_dims_to_operand_dims())?,
            vector: integers_of("index_vector_dim", Some([options.index_vector_dim()]))?[0],
        },
        combination,
    }))
}

impl StablehloScatter {
    /// Checks that the updates are slices, one for each index vector.
    fn check(&self, operand: &Shape, indices: &Shape, updates: &Shape) -> Result<(), OpError> {
        let batch = self.axes.batch(operand, indices)?;
        let slice: Vec<usize> = self.axes.window.iter().filter_map(|axis| updates.get(*axis)).copied().collect();
        let fits = slice.iter().zip(self.axes.kept(operand.rank())).all(|(size, axis)| *size <= operand[axis]);
        if !fits || self.axes.joined(&batch, &slice)? != updates.extents() {
            return Err(OpError::invalid(format!("updates {updates} at indices {indices} of an operand {operand}")));
        }
        Ok(())
    }

    /// Calls `visit` with the index of each update that lies inside the operand, and that of its element there.
    fn for_each_target(
        &self,
        updates: &Shape,
        vectors: &[Vec<i64>],
        extents: &Shape,
        visit: &mut dyn FnMut(usize, usize),
    ) {
        let (steps, kept) = (strides(extents), self.axes.kept(extents.rank()).collect::<Vec<_>>());
        // The coordinates of an update in its slice, as places along the operand's axes, are found again from one number.
        let places = self.axes.places(updates, |axis| steps[kept[axis]]);
        for (update, (batch, offset)) in places.enumerate() {
            let mut target = Some(0);
            for (axis, step) in steps.iter().enumerate() {
                let inside = if self.axes.dropped.contains(&axis) { 0 } else { offset / step % extents[axis] };
                let start = self.axes.named.iter().position(|named| *named == axis).map_or(0, |at| vectors[batch][at]);
                let place = start.checked_add(inside as i64).and_then(|place| usize::try_from(place).ok());
                let place = place.filter(|place| *place < extents[axis]);
                target = target.zip(place).map(|(sum, place)| sum + place * step);
            }
            if let Some(target) = target {
                visit(update, target);
            }
        }
    }

    fn scatter<T: Combinable>(
        &self,
        (updates, shape): (&[T], &Shape),
        vectors: &[Vec<i64>],
        (output, extents): (&mut [T], &Shape),
    ) {
        self.for_each_target(shape, vectors, extents, &mut |update, target| {
            output[target] = match self.combination {
                Some(combination) => T::combine(combination, output[target], updates[update]),
                None => updates[update],
            };
        });
    }
}

impl Operator for StablehloScatter {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [operand, indices, updates] = inputs.required();
        if let (Some(operand), Some(indices), Some(updates)) = (&operand.shape, &indices.shape, &updates.shape) {
            self.check(operand, indices, updates)?;
        }
        Ok(vec![Inferred { data_type: operand.data_type, shape: operand.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (indices, updates) = (eval.input(1)?, eval.input(2)?);
        let operand = eval.optional(0);
        let Some(output) = eval.outputs.first_mut() else { return Err(OpError::invalid("its output has no shape")) };
        self.check(output.shape, indices.shape, updates.shape)?;
        let vectors = vectors(&indices.integers()?, indices.shape, self.axes.vector);
        if let Some(operand) = operand {
            output.bytes.copy_from_slice(operand.bytes);
        }
        with_combinable!(output.data_type, T => {
            let (given, made) = (elements::<T>(updates.bytes)?, elements_mut::<T>(output.bytes)?);
            self.scatter((given, updates.shape), &vectors, (made, output.shape));
        });
        Ok(())
    }

    fn updates(&self) -> Option<usize> {
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_outside_is_left_out() {
        let scatter = StablehloScatter {
            axes: SliceAxes { window: vec![1], dropped: vec![0], named: vec![0, 1], vector: 1 },
            combination: Some(Combination::Sum),
        };
        let (operand, indices, updates) = ([2, 3].into(), [2, 2].into(), [2, 2].into());
        scatter.check(&operand, &indices, &updates).unwrap();
        assert!(scatter.check(&operand, &indices, &[2, 4].into()).is_err());
        assert!(scatter.check(&operand, &indices, &[3, 2].into()).is_err());
        let mut output = [0; 6];
        scatter.scatter((&[1, 2, 3, 4], &updates), &[vec![0, 1], vec![1, 2]], (&mut output, &operand));
        assert_eq!(output, [0, 1, 2, 0, 0, 3]);
        scatter.scatter((&[1, 2, 3, 4], &updates), &[vec![i64::MAX, 0], vec![0, -1]], (&mut output, &operand));
        assert_eq!(output, [4, 1, 2, 0, 0, 3]);
    }
}
