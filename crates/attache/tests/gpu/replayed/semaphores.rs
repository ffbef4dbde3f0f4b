//! Runs that wait for semaphores and signal them, within one process.

use std::time::Duration;

use attache::ErrorKind;
use attache::gpu::DeviceSemaphore;

use super::{at, bytes, delegate, expected, filled, interpreter, numbers, read, refused, two_outputs};
use crate::validation;

const SECOND: Duration = Duration::from_secs(1);

/// A run waits until the host says that its input is there, and says when its output is.
#[test]
fn runs_wait_and_signal() {
    let _alone = validation::alone();
    let gpu = delegate();
    let (written, done) = (DeviceSemaphore::new(gpu.device()).unwrap(), DeviceSemaphore::new(gpu.device()).unwrap());
    let mut interpreter = interpreter(&two_outputs(16), &gpu);
    let w = numbers(16, 1);
    interpreter.write("w", &w).unwrap();
    let (input, output) = (filled(gpu.device(), &[0.0; 16]), filled(gpu.device(), &[0.0; 16]));
    interpreter.bind_input("x", at(&input).wait(&written, 1)).unwrap();
    interpreter.bind_output(1, at(&output).signal(&done, 1)).unwrap();
    for round in 1..=20 {
        let x = numbers(16, round as usize);
        input.write(0, &bytes(&x)).unwrap();
        let run = interpreter.invoke_async().unwrap();
        if round < 3 {
            // Long enough for hundreds of such runs.
            assert!(!done.wait(round, Duration::from_millis(300)).unwrap(), "the run has not waited");
        }
        written.signal(round).unwrap();
        assert!(done.wait(round, 60 * SECOND).unwrap());
        assert_eq!(read(&output, 16), expected(&x, &w)[1]);
        interpreter.wait(run).unwrap();
    }
    assert_eq!((written.value().unwrap(), done.value().unwrap()), (20, 20));
    validation::assert_silent();
}

/// A run of one interpreter waits for that of another one, which is submitted later, on the other side of the host.
#[test]
fn runs_are_ordered_by_semaphores() {
    let _alone = validation::alone();
    let gpu = delegate();
    let done = DeviceSemaphore::new(gpu.device()).unwrap();
    let model = two_outputs(16);
    let (mut first, mut second) = (interpreter(&model, &gpu), interpreter(&model, &gpu));
    let (x, w) = (numbers(16, 0), numbers(16, 1));
    let middle = filled(gpu.device(), &[0.0; 16]);
    first.write("w", &w).unwrap();
    second.write("w", &w).unwrap();
    first.write("x", &x).unwrap();
    first.bind_output(1, at(&middle).signal(&done, 5)).unwrap();
    second.bind_input("x", at(&middle).wait(&done, 5)).unwrap();
    let run = first.invoke_async().unwrap();
    second.invoke().unwrap();
    assert_eq!(second.read::<f32>(1).unwrap(), expected(&expected(&x, &w)[1], &w)[1]);
    first.wait(run).unwrap();
    assert!(done.wait(5, 60 * SECOND).unwrap() && done.value().unwrap() == 5);
    validation::assert_silent();
}

#[test]
fn values_grow() {
    let _alone = validation::alone();
    let gpu = delegate();
    let semaphore = DeviceSemaphore::new(gpu.device()).unwrap();
    semaphore.signal(7).unwrap();
    refused(semaphore.signal(7), ErrorKind::Usage, &["value 7", "grow"]);
    assert!(!semaphore.wait(8, Duration::ZERO).unwrap() && semaphore.wait(6, Duration::ZERO).unwrap());
    let mut interpreter = interpreter(&two_outputs(4), &gpu);
    interpreter.write("w", &numbers(4, 1)).unwrap();
    let memory = filled(gpu.device(), &numbers(4, 2));
    interpreter.bind_input("x", at(&memory).signal(&semaphore, 7)).unwrap();
    refused(interpreter.invoke(), ErrorKind::Usage, &["value 7", "grow"]);
    interpreter.bind_input("x", at(&memory).signal(&semaphore, u64::MAX)).unwrap();
    interpreter.bind_input("x", at(&memory).signal(&semaphore, 8)).unwrap();
    interpreter.invoke_repeatedly(3).unwrap();
    assert!(semaphore.wait(10, 60 * SECOND).unwrap() && !semaphore.wait(11, Duration::ZERO).unwrap());
    validation::assert_silent();
}

/// Values that pending runs set count as set: neither the host nor another run may pass or repeat them, and the host sets
/// only what they wait for.
#[test]
fn values_of_pending_runs_count() {
    let _alone = validation::alone();
    let gpu = delegate();
    let [start, done, other] = [0, 1, 2].map(|_| DeviceSemaphore::new(gpu.device()).unwrap());
    let mut interpreter = interpreter(&two_outputs(4), &gpu);
    let [x, w] = [1, 2].map(|seed| filled(gpu.device(), &numbers(4, seed)));
    interpreter.bind_input("w", at(&w)).unwrap();
    interpreter.bind_input("x", at(&x).wait(&start, 1).signal(&done, 10)).unwrap();
    let run = interpreter.invoke_async().unwrap();
    for value in [9, 10, 12] {
        refused(done.signal(value), ErrorKind::Usage, &["in progress", "to 10", "wait for"]);
    }
    // The other semaphore is free before and after the run that is refused because of this one.
    for (first, second) in [(&done, &other), (&other, &done)] {
        interpreter.bind_input("x", at(&x).signal(first, 10)).unwrap();
        interpreter.bind_input("w", at(&w).signal(second, 10)).unwrap();
        refused(interpreter.invoke_async(), ErrorKind::Usage, &["in progress", "to 10", "grow"]);
    }
    other.signal(11).unwrap();
    start.signal(1).unwrap();
    interpreter.wait(run).unwrap();
    assert!(done.wait(10, 60 * SECOND).unwrap());
    done.signal(12).unwrap();
    // A run that waits for what the host sets, and then sets the same semaphore.
    interpreter.bind_input("x", at(&x).wait(&done, 13).signal(&done, 14)).unwrap();
    interpreter.bind_input("w", at(&w)).unwrap();
    let run = interpreter.invoke_async().unwrap();
    done.signal(13).unwrap();
    interpreter.wait(run).unwrap();
    assert_eq!(done.value().unwrap(), 14);
    validation::assert_silent();
}
