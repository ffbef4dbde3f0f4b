//! Every golden case on a GPU, in 32-bit floats and under Vulkan's validation layer; through OpenGL where the environment
//! has `ATTACHE_TEST_BACKEND=gl`.
//!
//! No operator may be left to the CPU, except in the cases of `conformance/expectations/gpu_f32.txt`: what is left there
//! and why has to be as that list says, to the letter. With the feature `poison` whatever the CPU computes is
//! overwritten; the other cases still have to agree.

#[path = "../../attache-gpu/tests/validation/mod.rs"]
mod validation;

mod goldens;

use std::fmt::Write;
use std::sync::Arc;

use attache::gpu::Backend;
use attache::{Delegate, ErrorKind, GpuDelegate, GpuDelegateOptions};
use goldens::{Case, assert_none, cases};

/// Error that is allowed, relative to the largest number of the case.
const TOLERANCE: f32 = 2e-5;

fn delegate() -> Arc<dyn Delegate> {
    let options = GpuDelegateOptions::default();
    let options = if through_gl() {
        options.backend(Backend::Gl)
    } else {
        validation::listen();
        options.backend(Backend::Vulkan).validation(true)
    };
    let delegate = GpuDelegate::new(options);
    Arc::new(delegate.expect("a device (on Debian: mesa-vulkan-drivers; for OpenGL: libegl1, libgles2) to test on"))
}

fn through_gl() -> bool {
    match std::env::var("ATTACHE_TEST_BACKEND").as_deref() {
        Ok("gl") => true,
        Ok(other) => panic!("ATTACHE_TEST_BACKEND is {other}; only gl is another way than Vulkan"),
        Err(_) => false,
    }
}

/// What became of a case that didn't fail.
enum Outcome {
    /// It agrees, and the GPU had all of it.
    Agrees,
    /// What the GPU refused, and why. The CPU took that over, and the case agrees.
    Refused(String),
}

fn run(case: &Case, delegate: &Arc<dyn Delegate>) -> Result<Outcome, String> {
    match case.interpreter(|builder| builder.delegate(delegate.clone()).require_gpu(true)) {
        Ok(mut interpreter) => case.check(&mut interpreter, TOLERANCE).map(|()| Outcome::Agrees),
        Err(error) if error.kind() == ErrorKind::NotDelegated => {
            let mut interpreter =
                case.interpreter(|builder| builder.delegate(delegate.clone())).map_err(|error| error.to_string())?;
            let reason = |node: &attache::NodePlacement| {
                format!("{}: {}", node.operator, node.reason.as_deref().unwrap_or("no reason"))
            };
            let reasons: Vec<String> = interpreter.placement().left_behind().map(reason).collect();
            case.check_with_cpu(&mut interpreter, TOLERANCE)?;
            Ok(Outcome::Refused(reasons.join("; ")))
        }
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn the_gpu_agrees_with_every_case() {
    let delegate = delegate();
    let (mut failures, mut refused) = (Vec::new(), String::new());
    for case in cases() {
        match run(&case, &delegate) {
            Ok(Outcome::Agrees) => {}
            Ok(Outcome::Refused(reasons)) => {
                writeln!(refused, "{}: {reasons}", case.name).expect("a string takes any text");
            }
            Err(error) => failures.push(format!("{}: {error}", case.name)),
        }
    }
    if !through_gl() {
        validation::assert_silent();
    }
    assert_none(&failures);
    let expected = include_str!("../../../conformance/expectations/gpu_f32.txt");
    assert!(refused == expected, "conformance/expectations/gpu_f32.txt should read:\n{refused}");
}
