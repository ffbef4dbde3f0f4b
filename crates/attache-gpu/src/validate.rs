//! What must hold between stages: of kernels after each pass over them, and of a plan before it is recorded.
//!
//! A broken invariant is a bug of this crate, never of a program. It is found here, where it is an error that names the
//! kernel and the value, instead of in a recorder, which would look for what lies nowhere.

use attache_gpu_ir::{Program, Source, ValueId};

use crate::error::{GpuError, GpuErrorKind};
use crate::fuse::Kernel;
use crate::layout::{Place, roots};
use crate::plan::Plan;
use crate::shader::Binding;

/// Checks kernels in the order in which they run: whatever one reads is an input, a constant, or made by one before it;
/// each value is made once; every view is of a value that its kernel reads, and finds its source; outputs are made.
/// `after` names the pass that made the kernels.
pub(crate) fn kernels(program: &Program, kernels: &[Kernel], after: &str) -> Result<(), GpuError> {
    let roots = roots(program);
    let mut made = vec![false; program.values.len()];
    for (id, value) in program.values.iter().enumerate() {
        made[id] = matches!(value.source, Source::Input | Source::Constant(_));
    }
    let is_made = |made: &[bool], id: ValueId| made[roots[id.index()].index()];
    for (index, kernel) in kernels.iter().enumerate() {
        let broken = |what: String| broken(format!("after {after}, kernel {index} ({}) {what}", describe(kernel)));
        if let Some(id) = kernel.reads().find(|id| !is_made(&made, *id)) {
            return Err(broken(format!("reads %{}, which no kernel before it makes", id.0)));
        }
        views(program, kernel).map_err(broken)?;
        for id in &kernel.outputs {
            if std::mem::replace(&mut made[id.index()], true) {
                return Err(broken(format!("makes %{}, which is there already", id.0)));
            }
        }
    }
    match program.outputs.iter().find(|id| !is_made(&made, **id)) {
        Some(id) => Err(broken(format!("after {after}, no kernel makes the output %{}", id.0))),
        None => Ok(()),
    }
}

/// Each view is of a value that the kernel reads, once, in the shapes of its value and source.
fn views(program: &Program, kernel: &Kernel) -> Result<(), String> {
    let prologue = kernel.prologue.as_deref();
    let read = |id: ValueId| {
        let all = [Some(kernel), prologue].into_iter().flatten().flat_map(|k| k.inputs.iter().chain(&k.operands));
        all.into_iter().any(|other| *other == id)
    };
    for (index, view) in kernel.views.iter().enumerate() {
        let (value, source) = (program.shape(view.value), program.shape(view.source));
        if !read(view.value) {
            return Err(format!("has a view of %{}, which it doesn't read", view.value.0));
        }
        if kernel.views[..index].iter().any(|other| other.value == view.value) {
            return Err(format!("has two views of %{}", view.value.0));
        }
        if view.map.output.as_slice() != &value[..] || view.map.coordinates.len() != source.rank() {
            return Err(format!("views %{} in other shapes than those of %{}", view.value.0, view.source.0));
        }
    }
    Ok(())
}

/// Checks a plan's kernels once more, with those that its making added; that whatever its dispatches bind lies somewhere;
/// and that each output does.
pub(crate) fn plan(plan: &Plan) -> Result<(), GpuError> {
    kernels(&plan.program, &plan.kernels, "planning")?;
    let is_nowhere = |id: ValueId| plan.layout.places[id.index()] == Place::Nowhere;
    for (index, dispatch) in plan.dispatches.iter().enumerate() {
        for binding in &dispatch.shader.bindings {
            if let Binding::Read(id) | Binding::Write(id, _) = binding
                && is_nowhere(*id)
            {
                let variant = dispatch.shader.variant;
                return Err(broken(format!("dispatch {index} ({variant}) binds %{}, which lies nowhere", id.0)));
            }
        }
    }
    match plan.program.outputs.iter().find(|id| is_nowhere(**id)) {
        Some(id) => Err(broken(format!("the output %{} lies nowhere", id.0))),
        None => Ok(()),
    }
}

fn describe(kernel: &Kernel) -> String {
    let outputs: Vec<String> = kernel.outputs.iter().map(|id| format!("%{}", id.0)).collect();
    format!("{} to {}", kernel.primitive.name(), outputs.join(", "))
}

fn broken(what: String) -> GpuError {
    GpuError::new(GpuErrorKind::Failed, format!("a bug in the GPU delegate: {what}; please report it"))
}

#[cfg(test)]
mod tests {
    use attache_gpu_ir::{Expression, Index, IndexMap, Primitive, Scalar};

    use super::*;
    use crate::fuse::{View, fuse};
    use crate::limits::Limits;

    /// A reversal of rows that a square reads, and the square's kernel.
    fn squared() -> (Program, Vec<Kernel>) {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, [2, 3].into());
        let map = IndexMap { output: vec![3, 2], coordinates: vec![Index::Axis(1), Index::Axis(0)], fill: None };
        let moved = program.step(Primitive::IndexMap(map), &[input], 0).unwrap()[0];
        let expression = Expression::Input(0).multiply(Expression::Input(0));
        let square = Primitive::Map { expression, shape: [3, 2].into(), scalar: Scalar::F32 };
        program.outputs = program.step(square, &[moved], 1).unwrap();
        let kernels = fuse(&program, &Limits::default());
        (program, kernels)
    }

    #[test]
    fn what_fusion_makes_holds() {
        let (program, made) = squared();
        kernels(&program, &made, "fusion").unwrap();
        assert_eq!(made.len(), 1);
    }

    #[test]
    fn broken_kernels_are_found() {
        let spoil = |change: fn(&mut Vec<Kernel>)| {
            let (program, mut made) = squared();
            change(&mut made);
            kernels(&program, &made, "fusion").unwrap_err().to_string()
        };
        let lost = spoil(|made| made[0].views.clear());
        assert!(lost.contains("reads %1, which no kernel before it makes"), "{lost}");
        let twice = spoil(|made| made.push(made[0].clone()));
        assert!(twice.contains("makes %2, which is there already"), "{twice}");
        let gone = spoil(Vec::clear);
        assert!(gone.contains("no kernel makes the output %2"), "{gone}");
        let stray = spoil(|made| {
            let View { source, map, .. } = made[0].views[0].clone();
            made[0].views.push(View { value: ValueId(0), source, map });
        });
        assert!(stray.contains("has a view of %0") || stray.contains("views %0"), "{stray}");
    }
}
