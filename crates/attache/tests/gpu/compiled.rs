//! Compiled models on the GPU: their interpreters share pipelines and weights, on several threads and for several
//! input shapes, and their runs can be awaited.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use attache::gpu::{Backend, Submission};
use attache::{ErrorKind, GpuDelegate, GpuDelegateOptions, Interpreter, Model};

use crate::common::Net;
use crate::validation;

/// Number of elements of each layer.
const N: usize = 96;

/// Builds two layers with constant weights.
fn model() -> Model {
    let mut net = Net::new();
    let x = net.tensor("x", &[1, N]);
    let weights =
        |seed: usize| (0..N * N).map(|index| ((index * 5 + seed) % 13) as f32 / 13.0 - 0.4).collect::<Vec<_>>();
    let first = net.fully_connected(x, [N, N], &weights(1));
    let hidden = net.relu(first, &[1, N]);
    let y = net.fully_connected(hidden, [N, N], &weights(2));
    net.finish(&[x], &[y])
}

fn gpu(submission: Submission) -> GpuDelegate {
    validation::listen();
    let options =
        GpuDelegateOptions::default().software(true).backend(Backend::Vulkan).validation(true).submission(submission);
    GpuDelegate::new(options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on")
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn threads_share_a_compiled_model() {
    let _alone = validation::alone();
    let model = model();
    for submission in [Submission::Replay, Submission::Encoder] {
        let compiled = Interpreter::builder(&model)
            .delegate(Arc::new(gpu(submission)))
            .require_delegation(true)
            .compile()
            .unwrap();
        let run = |interpreter: &mut Interpreter, seed: usize| {
            let input = interpreter.input_mut::<f32>(0).unwrap();
            input.iter_mut().enumerate().for_each(|(index, x)| *x = ((index * 7 + seed) % 31) as f32 / 31.0);
            interpreter.invoke().unwrap();
            interpreter.read::<f32>(0).unwrap().to_vec()
        };
        let mut first = compiled.interpreter().unwrap();
        let expected: Vec<Vec<f32>> = (0..2).map(|seed| run(&mut first, seed)).collect();
        assert_ne!(expected[0], expected[1]);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (compiled, expected) = (&compiled, &expected);
                scope.spawn(move || {
                    let mut interpreter = compiled.interpreter().unwrap();
                    for round in 0..4 {
                        let seed = (thread + round) % 2;
                        assert_eq!(run(&mut interpreter, seed), expected[seed], "{submission:?}");
                    }
                });
            }
        });
        first.resize_input(0, &[3, N]).unwrap();
        let other = run(&mut first, 0);
        first.resize_input(0, &[1, N]).unwrap();
        assert_eq!(run(&mut first, 0), expected[0]);
        first.resize_input(0, &[3, N]).unwrap();
        assert_eq!(run(&mut first, 0), other);
    }
    validation::assert_silent();
}

#[test]
fn runs_are_awaited() {
    let _alone = validation::alone();
    let model = model();
    for submission in [Submission::Replay, Submission::Encoder] {
        let builder = Interpreter::builder(&model).delegate(Arc::new(gpu(submission))).require_delegation(true);
        let mut interpreter = builder.build().unwrap();
        interpreter.input_mut::<f32>(0).unwrap().fill(0.5);
        interpreter.invoke().unwrap();
        let expected = interpreter.read::<f32>(0).unwrap().to_vec();
        let runs: Vec<_> = (0..interpreter.queue_depth()).map(|_| interpreter.invoke_async().unwrap()).collect();
        assert!(runs.len() > 1);
        for run in &runs {
            block_on(run.clone()).unwrap();
            assert!(matches!(run.wait_timeout(Duration::ZERO), Some(Ok(()))) && run.is_done());
            interpreter.wait(run).unwrap();
            assert_eq!(interpreter.read::<f32>(0).unwrap(), expected, "{submission:?}");
        }
        let cancellation = interpreter.cancellation();
        let run = interpreter.invoke_async().unwrap();
        cancellation.cancel();
        assert_eq!(interpreter.wait(&run).unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(interpreter.read::<f32>(0).unwrap_err().kind(), ErrorKind::Usage);
        assert_eq!(interpreter.wait(&run).unwrap_err().kind(), ErrorKind::Cancelled, "also when asked again");
        let [first, second, third] = [(), (), ()].map(|()| interpreter.invoke_async().unwrap());
        second.cancel();
        interpreter.wait(&third).unwrap();
        cancellation.cancel();
        assert_eq!(interpreter.read::<f32>(0).unwrap(), expected, "it had been waited for");
        assert_eq!(interpreter.wait(&second).unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(interpreter.wait(&first).unwrap_err().kind(), ErrorKind::Cancelled, "it had not");
        interpreter.invoke().unwrap();
        assert_eq!(interpreter.read::<f32>(0).unwrap(), expected);
    }
    validation::assert_silent();
}
