//! Invariants of kernels, checked after each pass.
//!
//! A violated invariant is a bug of this crate, never of a program. The check reports it as an error that
//! names the kernel and the value. Without the check, recording would fail later on a value without memory.

use attache_gpu_ir::{Program, Source, ValueId};

use super::{GpuError, GpuErrorKind, Kernel, roots};

/// Checks kernels, which are in execution order. Each value that a kernel reads is an input, a constant, or
/// the output of an earlier kernel. Each value is computed once. Each view is of a value that its kernel
/// reads, and its source is available. Each map computes one input. All outputs of the program are computed. The error
/// names the violation and `after`, the pass that made the kernels.
pub(crate) fn validate(program: &Program, kernels: &[Kernel], after: &str) -> Result<(), GpuError> {
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
        for map in &kernel.maps {
            let read = kernel.inputs.iter().chain(&kernel.operands);
            let readers = read.filter(|id| kernel.source(**id) == map.outputs[0]).count();
            if readers != 1 {
                return Err(broken(format!("reads the map to %{} {readers} times", map.outputs[0].0)));
            }
        }
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

/// Checks that the kernel reads the value of each view, that no value has two views, and that the shapes of
/// each index map match those of its value and source.
fn views(program: &Program, kernel: &Kernel) -> Result<(), String> {
    fn read(kernel: &Kernel, id: ValueId) -> bool {
        kernel.inputs.iter().chain(&kernel.operands).any(|other| *other == id)
            || kernel.within().any(|part| read(part, id))
    }
    for (index, view) in kernel.views.iter().enumerate() {
        let (value, source) = (program.shape(view.value), program.shape(view.source));
        if !read(kernel, view.value) {
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

fn describe(kernel: &Kernel) -> String {
    let outputs: Vec<String> = kernel.outputs.iter().map(|id| format!("%{}", id.0)).collect();
    format!("{} to {}", kernel.primitive.name(), outputs.join(", "))
}

/// Returns the error of a violated invariant, which is a bug of this crate. `what` describes the violation.
pub(crate) fn broken(what: String) -> GpuError {
    GpuError::new(GpuErrorKind::Failed, format!("a bug in the GPU delegate: {what}; please report it"))
}

#[cfg(test)]
mod tests {
    use attache_gpu_ir::{Expression, Index, IndexMap, Primitive, Scalar};

    use super::*;
    use crate::kernel::View;

    /// Returns a program and its only kernel: a square that reads a transposed input through a view.
    fn squared() -> (Program, Vec<Kernel>) {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, [2, 3].into());
        let map = IndexMap { output: vec![3, 2], coordinates: vec![Index::Axis(1), Index::Axis(0)], fill: None };
        let moved = program.step(Primitive::IndexMap(map.clone()), &[input], 0).unwrap()[0];
        let expression = Expression::Input(0).multiply(Expression::Input(0));
        let primitive = Primitive::Map { expression, shape: [3, 2].into(), scalar: Scalar::F32 };
        program.outputs = program.step(primitive.clone(), &[moved], 1).unwrap();
        let views = vec![View { value: moved, source: input, map }];
        let kernel = Kernel { views, ..Kernel::of(primitive, vec![moved], program.outputs.clone(), vec![0, 1]) };
        (program, vec![kernel])
    }

    #[test]
    fn valid_kernels_pass() {
        let (program, kernels) = squared();
        validate(&program, &kernels, "fusion").unwrap();
    }

    #[test]
    fn broken_kernels_are_found() {
        let spoil = |change: fn(&mut Vec<Kernel>)| {
            let (program, mut kernels) = squared();
            change(&mut kernels);
            validate(&program, &kernels, "fusion").unwrap_err().to_string()
        };
        let lost = spoil(|kernels| kernels[0].views.clear());
        assert!(lost.contains("reads %1, which no kernel before it makes"), "{lost}");
        let twice = spoil(|kernels| kernels.push(kernels[0].clone()));
        assert!(twice.contains("makes %2, which is there already"), "{twice}");
        let gone = spoil(Vec::clear);
        assert!(gone.contains("no kernel makes the output %2"), "{gone}");
        let stray = spoil(|kernels| {
            let View { source, map, .. } = kernels[0].views[0].clone();
            kernels[0].views.push(View { value: ValueId(0), source, map });
        });
        assert!(stray.contains("has a view of %0") || stray.contains("views %0"), "{stray}");
    }
}
