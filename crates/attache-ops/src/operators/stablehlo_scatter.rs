//! STABLEHLO_SCATTER: the operand with slices of updates combined into it, one for each index vector. Elements that would lie
//! outside are left out. The function is that of a subgraph: one operator, or none where updates replace elements.

use attache_base::{Constant, Shape, strides};
use attache_gpu_ir::{IntExpression, ValueId};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::combine::{COMBINABLE, Combinable, with_combinable};
use crate::shared::scatter::{Places, few, inside, listed, outside, scatter};
use crate::shared::slices::{SliceAxes, integers_of, vectors};
use crate::shared::support::{elements, elements_mut, refuse};
use crate::shared::view::View;
use crate::{Code, Combination, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::STABLEHLO_SCATTER),
    versions: 1..=1,
    inputs: &[input("operand").of(&COMBINABLE), input("scatter_indices").integral(), input("updates").like(0)],
    parse,
}];

#[derive(Clone, Debug)]
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

/// How a device takes the updates: in rows of elements that lie one after the other in the operand too.
struct InRows {
    /// The scatter of rows as if each were an element.
    op: StablehloScatter,
    /// The extents of operand and updates in rows.
    operand: Shape,
    updates: Shape,
    /// Number of elements of a row.
    length: usize,
}

impl StablehloScatter {
    /// Joins the innermost axes that each slice covers whole.
    fn in_rows(&self, operand: &Shape, updates: &Shape) -> InRows {
        let (mut op, mut operand, mut updates) = (self.clone(), operand.to_vec(), updates.to_vec());
        let mut length = 1;
        while let (Some(axis), Some(own)) = (operand.len().checked_sub(1), updates.len().checked_sub(1)) {
            let is_whole = !op.axes.named.contains(&axis) && operand[axis] == updates[own];
            if !is_whole || op.axes.dropped.contains(&axis) || op.axes.window.last() != Some(&own) {
                break;
            }
            length *= operand[axis];
            op.axes.window.pop();
            operand.pop();
            updates.pop();
        }
        InRows { op, operand: operand.into(), updates: updates.into(), length }
    }
}

impl InRows {
    /// Emits the places of rows of updates, in their order, in that of the operand's rows.
    fn places(&self, lowering: &mut Lowering<'_>) -> Result<Places, Unsupported> {
        let count = listed(&self.updates)?;
        let Ok(indices) = lowering.integers(1) else { return self.computed(lowering).map(Places::Computed) };
        let vectors = vectors(&indices, lowering.input_shape(1)?, self.op.axes.vector);
        let mut places = vec![-1; count];
        self.op.for_each_target(&self.updates, &vectors, &self.operand, &mut |update, target| {
            places[update] = target as i32;
        });
        Ok(Places::Known(places))
    }

    /// Emits places that are computed from indices: `[rows]`, negative for rows that lie outside.
    fn computed(&self, lowering: &mut Lowering<'_>) -> Result<ValueId, Unsupported> {
        few(self.updates.elements())?;
        // There is a constant for each axis that indices name.
        listed(&[self.updates.elements(), self.op.axes.named.len()].into())?;
        let (axes, steps) = (&self.op.axes, strides(&self.operand));
        let kept: Vec<usize> = axes.kept(self.operand.rank()).collect();
        let outside = outside(&self.operand)?;
        // The coordinates in a slice, which stand along axes of the updates, and its indices, along the others.
        let slice = self.along(|is_window| is_window);
        let along = |step: &dyn Fn(usize) -> usize| -> Vec<i32> {
            axes.places(&slice, |window| step(kept[window])).map(|(_, place)| place as i32).collect()
        };
        let unnamed = along(&|axis| if axes.named.contains(&axis) { 0 } else { steps[axis] });
        let mut places = lowering.constant(Constant::from_values(slice.clone(), &unnamed))?;
        for (number, axis) in axes.named.iter().enumerate() {
            let start = self.starts(lowering, number)?;
            let offsets = along(&|other| usize::from(other == *axis));
            let offsets = lowering.constant(Constant::from_values(slice.clone(), &offsets))?;
            let [sum, start_at, offset] = [0, 1, 2].map(IntExpression::Input);
            // Indices far outside are moved to where the sum does not overflow and still lies outside.
            let extent = self.operand[*axis] as i32;
            let index = start_at.clamp((-extent, extent)).add(offset);
            let step = IntExpression::Constant(steps[*axis] as i32);
            let place = index.clone().multiply(step);
            let place = inside(index, IntExpression::Constant(extent)).select(place, IntExpression::Constant(outside));
            places = lowering.int_map(sum.add(place), &self.updates, &[places, start, offsets])?;
        }
        if axes.named.is_empty() {
            places = lowering.int_map(IntExpression::Input(0), &self.updates, &[places])?;
        }
        lowering.reshape(places, &[self.updates.elements()].into())
    }

    /// Emits the numbers with index `number` of all index vectors, along the axes of the updates that are not those of slices.
    fn starts(&self, lowering: &mut Lowering<'_>, number: usize) -> Result<ValueId, Unsupported> {
        let (indices, vector) = (lowering.input(1)?, self.op.axes.vector);
        let shape = lowering.shape(indices).clone();
        let starts = match vector < shape.rank() {
            true => View::slices(&shape, vector, number, 1).lower(lowering, indices)?,
            false => indices,
        };
        lowering.reshape(starts, &self.along(|is_window| !is_window))
    }

    /// Returns the extents of the updates, with 1 instead for axes of slices, or for the others.
    fn along(&self, is_kept: impl Fn(bool) -> bool) -> Shape {
        let extents = self.updates.iter().enumerate();
        extents.map(|(axis, extent)| if is_kept(self.op.axes.window.contains(&axis)) { *extent } else { 1 }).collect()
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

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        lowering.use_stored();
        let (operand, updates) = (lowering.input_shape(0)?.clone(), lowering.input_shape(2)?.clone());
        let data_type = lowering.input_fact(0)?.data_type;
        self.check(&operand, lowering.input_shape(1)?, &updates).map_err(refuse)?;
        let rows = self.in_rows(&operand, &updates);
        let places = rows.places(lowering)?;
        let (given, kept) = (lowering.input(2)?, lowering.input(0)?);
        let given = lowering.reshape(given, &[rows.updates.elements(), rows.length].into())?;
        let kept = lowering.reshape(kept, &[rows.operand.elements(), rows.length].into())?;
        let all = (places, rows.operand.elements());
        let made = scatter(lowering, (self.combination, data_type), [kept, given], all)?;
        let made = lowering.reshape(made, &operand)?;
        lowering.output(0, made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_slices_cover_are_joined() {
        let axes = SliceAxes { window: vec![1, 2], dropped: vec![0], named: vec![0], vector: 1 };
        let joined = |updates: [usize; 3]| {
            let scatter = StablehloScatter { axes: axes.clone(), combination: None };
            let rows = scatter.in_rows(&[4, 3, 5].into(), &updates.into());
            (rows.op.axes.window, rows.operand.to_vec(), rows.updates.to_vec(), rows.length)
        };
        assert_eq!(joined([7, 3, 5]), (vec![], vec![4], vec![7], 15));
        assert_eq!(joined([7, 2, 5]), (vec![1], vec![4, 3], vec![7, 2], 5));
        assert_eq!(joined([7, 3, 4]), (vec![1, 2], vec![4, 3, 5], vec![7, 3, 4], 1));
    }

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
