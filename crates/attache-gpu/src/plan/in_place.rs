//! Which dispatches of a plan use an output, so that they can use another buffer in place of its range of a bank, and which
//! ones write it where an input is.

use serde::{Deserialize, Serialize};

use super::{BoundRange, BufferRange, Dispatch, Plan, PlanBuffer};

/// Another form of a dispatch that copies an input to an output and replaces some of its elements, such as a cache of keys:
/// for runs in which both are the same memory, where it replaces these elements alone. Nothing else reads the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InPlace {
    /// The dispatch, as an index into [`Plan::dispatches`].
    pub dispatch: usize,
    /// The input, as an index into [`Plan::inputs`].
    pub input: usize,
    /// The output, as an index into [`Plan::outputs`].
    pub output: usize,
    /// The dispatch that alone reads the output, if the form is in place of that one and updates as well. The dispatch itself
    /// is then left out.
    pub reader: Option<usize>,
    /// What is dispatched in place of the dispatch, or of the reader.
    pub form: Dispatch,
}

impl InPlace {
    /// Returns the dispatch in whose place the form is.
    pub(crate) fn place(&self) -> usize {
        self.reader.unwrap_or(self.dispatch)
    }

    /// Whether there are such dispatches, and such an input and output of the same size, which the form writes.
    pub(super) fn fits(&self, plan: &Plan) -> bool {
        let (input, output) = (plan.inputs.get(self.input), plan.outputs.get(self.output));
        let is_alike = input.zip(output).is_some_and(|(input, output)| *input == output.size);
        let writes = |dispatch: &Dispatch| {
            let written = dispatch.bindings.iter().filter(|bound| bound.writes);
            plan.outputs
                .get(self.output)
                .is_some_and(|output| written.map(|bound| &bound.range).any(|range| range == output))
        };
        let reads = |reader: usize| {
            let later = plan.dispatches.iter().enumerate().skip(self.dispatch + 1);
            let mut others = later.filter(|(index, _)| *index != reader).flat_map(|(_, dispatch)| &dispatch.bindings);
            let output = &plan.outputs[self.output];
            (self.dispatch + 1..plan.dispatches.len()).contains(&reader)
                && plan.dispatches[reader].bindings.iter().any(|bound| bound.range == *output)
                && !others.any(|bound| bound.range.overlaps(output))
        };
        let is_there = plan.dispatches.get(self.dispatch).is_some_and(writes) && writes(&self.form);
        is_alike && is_there && self.reader.is_none_or(reads)
    }
}

impl Plan {
    /// Returns the dispatch from which on an output's range of a bank has only values of the output: this dispatch and
    /// all later ones that use bytes of the range use exactly the range. `None` if the output is an input or a constant,
    /// if another output has the range as well, or if dispatches use the range in other ways.
    ///
    /// Dispatches are visited from the last to the first, because the output is in its range until the end of
    /// the run: those that only read it come first, then the one that writes it.
    pub(crate) fn first_use(&self, output: usize) -> Option<usize> {
        let range = &self.outputs[output];
        let is_shared = |(index, other): (usize, &BufferRange)| index != output && other.overlaps(range);
        if !matches!(range.buffer, PlanBuffer::Bank(_)) || self.outputs.iter().enumerate().any(is_shared) {
            return None;
        }
        let mut first = None;
        for (index, dispatch) in self.dispatches.iter().enumerate().rev() {
            let used: Vec<&BoundRange> = dispatch.bindings.iter().filter(|bound| bound.range.overlaps(range)).collect();
            let is_exact = used.iter().all(|bound| bound.range == *range);
            match (used.as_slice(), first) {
                ([], _) => {}
                (_, None) if !is_exact => return None,
                (used, None) if used.iter().all(|bound| !bound.writes) => {}
                ([bound], _) if bound.writes && is_exact => first = Some(index),
                (_, None) => return None,
                // The range has had another value before.
                (_, Some(_)) => break,
            }
        }
        first
    }

    /// Returns the dispatches, from `first` on, that bind bytes of a range.
    pub(crate) fn uses(&self, range: &BufferRange, first: usize) -> Vec<usize> {
        let uses = |index: &usize| self.dispatches[*index].bindings.iter().any(|bound| bound.range.overlaps(range));
        (first..self.dispatches.len()).filter(uses).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Dispatch;
    use super::*;

    const OUTPUT: (usize, usize) = (16, 8);

    /// Returns a plan of one bank with one output. Each dispatch has the offsets, sizes and kinds of its bindings.
    fn plan(dispatches: &[&[((usize, usize), bool)]]) -> Plan {
        let range = |(offset, size)| BufferRange { buffer: PlanBuffer::Bank(0), offset, size };
        let dispatch = |bindings: &&[((usize, usize), bool)]| Dispatch {
            shader: 0,
            groups: [1; 3],
            params: Vec::new(),
            bindings: bindings.iter().map(|(at, writes)| BoundRange { range: range(*at), writes: *writes }).collect(),
            needs_barrier: false,
        };
        let dispatches = dispatches.iter().map(dispatch).collect();
        Plan { dispatches, outputs: vec![range(OUTPUT)], banks: vec![64], ..Plan::default() }
    }

    #[test]
    fn an_output_begins_where_it_is_written_first() {
        let (read, written, other) = ((OUTPUT, false), (OUTPUT, true), ((0, 8), true));
        let cases: [(&[&[_]], _); 7] = [
            (&[&[other], &[written]], Some(1)),
            // Another dispatch reads the output, and one writes a part of it.
            (&[&[written], &[written], &[read, other]], Some(0)),
            // The range had another value before.
            (&[&[written], &[read, other], &[written]], Some(2)),
            (&[&[((16, 4), true)], &[other], &[written], &[read]], Some(2)),
            // Dispatches write a part of the range, or read what they write.
            (&[&[written], &[((16, 4), true)]], None),
            (&[&[written, read]], None),
            (&[&[other]], None),
        ];
        for (dispatches, first) in cases {
            assert_eq!(plan(dispatches).first_use(0), first, "{dispatches:?}");
        }
    }

    #[test]
    fn outputs_elsewhere_are_not_written_in_place() {
        let written = (OUTPUT, true);
        let mut twice = plan(&[&[written]]);
        twice.outputs.push(twice.outputs[0].clone());
        assert_eq!(twice.first_use(0), None);
        let mut input = plan(&[&[written]]);
        input.outputs[0].buffer = PlanBuffer::Input(0);
        assert_eq!(input.first_use(0), None);
        assert_eq!(plan(&[&[written], &[(OUTPUT, false), ((0, 4), true)]]).uses(&input.outputs[0], 0), [0; 0]);
        assert_eq!(plan(&[&[written], &[(OUTPUT, false)], &[]]).uses(&twice.outputs[0], 1), [1]);
    }
}
