//! Integer inputs (indices, axes, extents, counts) whose values are out of range for every tensor. Each
//! golden case with integer inputs runs on the CPU and on a GPU with extreme values in all of these inputs.
//!
//! The CPU returns outputs or an error, and never panics. The GPU cannot report errors during a run, so it
//! clamps indices to the nearest element. If the CPU returns outputs, the GPU returns the same.

use std::sync::Arc;

use attache::gpu::Quantized;
use attache::{DataType, Delegate, ErrorKind, GpuDelegate, GpuDelegateOptions, Interpreter};

use crate::goldens::{Case, assert_none, cases};

const EXTREMES: [i64; 8] = [i64::MIN, i32::MIN as i64, -(1 << 20), -1, 1 << 20, i32::MAX as i64, 1 << 32, i64::MAX];

/// Fills all `INT32` and `INT64` inputs with one number, clamped to the type. Returns whether there are any.
fn fill(interpreter: &mut Interpreter, number: i64) -> bool {
    let inputs: Vec<_> = interpreter.inputs().iter().map(|info| info.data_type).enumerate().collect();
    let mut filled = false;
    for (input, data_type) in inputs {
        match data_type {
            DataType::Int64 => interpreter.input_mut(input).unwrap().fill(number),
            DataType::Int32 => {
                let nearest = number.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
                interpreter.input_mut(input).unwrap().fill(nearest);
            }
            _ => continue,
        }
        filled = true;
    }
    filled
}

/// Resets the variables and runs once. Returns the bytes of all outputs, or the error of the run.
fn outputs(interpreter: &mut Interpreter) -> Result<Vec<Vec<u8>>, attache::Error> {
    interpreter.reset_variables();
    interpreter.invoke()?;
    (0..interpreter.outputs().len()).map(|index| Ok(interpreter.read_bytes(index)?.to_vec())).collect()
}

/// Runs a case on the CPU and the GPU with each extreme value. Returns for how many values the CPU returned
/// an error; `None` if the case has no integer inputs.
fn run(case: &Case, gpu: &Arc<dyn Delegate>) -> Result<Option<usize>, String> {
    let build = |delegate: Option<&Arc<dyn Delegate>>| {
        let made = case.interpreter(|builder| delegate.into_iter().fold(builder, |b, gpu| b.delegate(gpu.clone())));
        made.map_err(|error| error.to_string())
    };
    let (mut on_cpu, mut on_gpu) = (build(None)?, build(Some(gpu))?);
    let mut errors = 0;
    for number in EXTREMES {
        for interpreter in [&mut on_cpu, &mut on_gpu] {
            case.write(interpreter)?;
            if !fill(interpreter, number) {
                return Ok(None);
            }
        }
        let (expected, made) = (outputs(&mut on_cpu), outputs(&mut on_gpu));
        match (expected, made) {
            (Ok(expected), Ok(made)) => {
                case.compare_all(&on_gpu, &expected, &made, 2e-5).map_err(|error| format!("{number}: {error}"))?;
            }
            (Ok(_), Err(error)) => return Err(format!("{number}: only the GPU fails: {error}")),
            (Err(error), _)
                if !matches!(error.kind(), ErrorKind::Model | ErrorKind::Unsupported | ErrorKind::LimitExceeded) =>
            {
                return Err(format!("{number}: {error}"));
            }
            (Err(_), _) => errors += 1,
        }
    }
    Ok(Some(errors))
}

/// Creates a GPU delegate with exact quantized arithmetic, so that any difference from the CPU is due to an
/// index.
fn gpu() -> Arc<dyn Delegate> {
    let options = GpuDelegateOptions::default().software(true).quantized(Quantized::Exact);
    Arc::new(GpuDelegate::new(options).expect("a device to test on"))
}

#[test]
fn no_integer_leads_outside_of_a_tensor() {
    let gpu = gpu();
    let (mut failures, mut tried, mut rejected) = (Vec::new(), 0, 0);
    for case in cases() {
        match run(&case, &gpu) {
            Ok(None) => {}
            Ok(Some(errors)) => {
                tried += 1;
                rejected += errors;
            }
            Err(error) => failures.push(format!("{}: {error}", case.name)),
        }
    }
    assert_none(&failures);
    assert!(tried >= 50 && rejected >= 100, "{tried} cases with integers, {rejected} errors");
}

#[test]
fn a_gpu_takes_the_nearest_slice() {
    let gpu = gpu();
    let case = cases().into_iter().find(|case| case.name == "f32_GATHER_runtime_indices").expect("the case is there");
    let mut interpreter = case.interpreter(|builder| builder.delegate(gpu.clone()).require_delegation(true)).unwrap();
    let mut with = |number: i64| {
        case.write(&mut interpreter).unwrap();
        assert!(fill(&mut interpreter, number));
        outputs(&mut interpreter).unwrap()
    };
    assert_eq!(with(i32::MIN.into()), with(0));
    assert_eq!(with(-1), with(0));
    assert_eq!(with(i32::MAX.into()), with(1 << 20));
    assert_ne!(with(i32::MAX.into()), with(0));
}
