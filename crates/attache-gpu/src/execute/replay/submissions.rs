//! The submissions of a stream to its queue, in order. Each has a fence that is signalled when the submission
//! has ended.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ash::vk;

use super::bindings::Values;
use crate::bind::DeviceSemaphore;
use crate::device::Device;
use crate::device::vulkan::{Vulkan, failed};
use crate::execute::{Ended, Fence, MAX_PENDING, Wait};
use crate::kernel::GpuError;

/// How long a wait polls before and after the expected end of a submission. Polling avoids the delay of
/// waking up from a sleep, which is about as long as the run of a small network.
const SPIN: Duration = Duration::from_micros(500);

/// The fence of a submission. It is dropped only when the submission has ended, and is then used again.
struct SubmissionFence {
    device: Device,
    raw: vk::Fence,
    /// The semaphores that the submission sets, with their values.
    signals: Vec<(DeviceSemaphore, u64)>,
}

impl SubmissionFence {
    /// Waits, after the fence, until the semaphores have their values. Vulkan orders them before the fence, but the software
    /// driver (Mesa 22.3) signals it a little earlier.
    fn wait_for_signals(&self) -> Result<(), GpuError> {
        self.signals.iter().try_for_each(|(semaphore, value)| semaphore.wait(*value, Duration::MAX).map(drop))
    }
}

impl Fence for SubmissionFence {
    fn wait(&self, timeout: Duration) -> Result<bool, GpuError> {
        let Some(vulkan) = self.device.vulkan() else { return Ok(true) };
        let nanoseconds = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the fence was submitted to a queue, and is not reset before this handle is dropped.
        match unsafe { vulkan.raw.wait_for_fences(&[self.raw], true, nanoseconds) } {
            Ok(()) => self.wait_for_signals().map(|()| true),
            Err(vk::Result::TIMEOUT) => Ok(false),
            Err(error) => self.device.noted(Err(failed("a run")(error))),
        }
    }
}

impl Drop for SubmissionFence {
    fn drop(&mut self) {
        if let Some(vulkan) = self.device.vulkan() {
            // SAFETY: the submission has ended, or the queue is idle after an error, and this is the last handle.
            let kept = unsafe { vulkan.keep(self.raw) };
            drop(self.device.noted(kept));
        }
    }
}

/// The values of timeline semaphores that a submission waits for at its beginning and sets at its end. Each semaphore
/// occurs once.
#[derive(Default)]
pub(super) struct Semaphores {
    pub(super) waits: Values,
    pub(super) signals: Values,
}

/// Returns the handles and the values of semaphores.
fn raw(values: &Values) -> (Vec<vk::Semaphore>, Vec<u64>) {
    values.iter().map(|(raw, (_, value))| (*raw, *value)).unzip()
}

/// The submissions of one stream. They are numbered from 1 and end in order.
pub(super) struct Submissions {
    device: Device,
    /// The index of the queue, modulo the number of queues.
    queue: usize,
    /// The fences of the submissions that are not known to have ended, the oldest first.
    fences: VecDeque<Arc<SubmissionFence>>,
    /// The number of submissions that are known to have ended.
    ended: usize,
    wait: Wait,
    /// The expected duration of the next wait: that of the last one, or 7/8 of that duration if the last
    /// submission ended while the wait slept.
    usual: Duration,
}

impl Submissions {
    pub(super) fn new(device: &Device, queue: usize, wait: Wait) -> Self {
        let fences = VecDeque::with_capacity(MAX_PENDING);
        Self { device: device.clone(), queue, fences, ended: 0, wait, usual: Duration::ZERO }
    }

    fn vulkan(&self) -> &Vulkan {
        self.device.vulkan().expect("recordings are made where it is")
    }

    /// Returns the fence of a submission that is not known to have ended.
    fn fence(&self, number: usize) -> vk::Fence {
        self.fences[number - self.ended - 1].raw
    }

    /// Returns an object with which any thread can wait for a submission.
    pub(super) fn completion(&self, number: usize) -> Arc<dyn Fence> {
        match number.checked_sub(self.ended + 1).and_then(|index| self.fences.get(index)) {
            Some(fence) => fence.clone(),
            None => Arc::new(Ended),
        }
    }

    /// Returns the number of the last submission; 0 if there was none.
    pub(super) fn started(&self) -> usize {
        self.ended + self.fences.len()
    }

    /// Waits for the oldest submission if too many are pending.
    pub(super) fn make_room(&mut self) -> Result<(), GpuError> {
        if self.fences.len() == MAX_PENDING { self.wait(self.ended + 1) } else { Ok(()) }
    }

    /// Submits complete command buffers, which may already be pending, and returns the number of the submission. If too
    /// many submissions are pending, waits for the oldest one first.
    pub(super) fn submit(&mut self, buffers: &[vk::CommandBuffer], semaphores: &Semaphores) -> Result<usize, GpuError> {
        self.make_room()?;
        let [(waiting, values), (signalled, set)] = [raw(&semaphores.waits), raw(&semaphores.signals)];
        let stages = vec![vk::PipelineStageFlags::COMPUTE_SHADER | vk::PipelineStageFlags::TRANSFER; waiting.len()];
        let mut timelines = vk::TimelineSemaphoreSubmitInfo::default();
        timelines = timelines.wait_semaphore_values(&values).signal_semaphore_values(&set);
        let mut submit = vk::SubmitInfo::default().command_buffers(buffers);
        if !waiting.is_empty() || !signalled.is_empty() {
            submit = submit.wait_semaphores(&waiting).wait_dst_stage_mask(&stages).signal_semaphores(&signalled);
            submit = submit.push_next(&mut timelines);
        }
        let vulkan = self.vulkan();
        let fence = self.device.noted(vulkan.fence())?;
        let queue = vulkan.queue(self.queue);
        // SAFETY: the command buffers are complete and allow simultaneous use; the fence is not in use.
        let submitted = unsafe { vulkan.raw.queue_submit(*queue, &[submit], fence) };
        drop(queue);
        if submitted.is_err() {
            // SAFETY: a failed submission does not signal its fence.
            unsafe { vulkan.raw.destroy_fence(fence, None) };
        }
        self.device.noted(submitted.map_err(failed("the queue")))?;
        let signals = semaphores.signals.values().cloned().collect();
        self.fences.push_back(Arc::new(SubmissionFence { device: self.device.clone(), raw: fence, signals }));
        Ok(self.started())
    }

    /// Returns how many submissions are not known to have ended.
    pub(super) fn pending(&self) -> usize {
        self.fences.len()
    }

    /// Whether all submissions have ended, including those that were not waited for.
    pub(super) fn is_idle(&self) -> Result<bool, GpuError> {
        self.is_over(self.started())
    }

    /// Whether a submission has ended, whether or not it was waited for.
    pub(super) fn is_over(&self, number: usize) -> Result<bool, GpuError> {
        if number <= self.ended {
            return Ok(true);
        }
        // SAFETY: the fence was submitted to the queue, and belongs to the recording.
        let is_over = unsafe { self.vulkan().raw.get_fence_status(self.fence(number)) };
        self.device.noted(is_over.map_err(failed("a run")))
    }

    /// Whether a submission is known to have ended because [`Submissions::wait`] waited for it or for a later
    /// one.
    pub(super) fn has_ended(&self, number: usize) -> bool {
        (1..=self.ended).contains(&number)
    }

    /// Waits until a submission has ended. Sleeps at first, and polls around the expected end, which is
    /// estimated from the duration of the last wait.
    pub(super) fn wait(&mut self, number: usize) -> Result<(), GpuError> {
        if number <= self.ended {
            return Ok(());
        }
        let start = Instant::now();
        let asleep = match self.wait {
            Wait::Adaptive => self.usual.saturating_sub(SPIN),
            Wait::Spin | Wait::Yield => Duration::ZERO,
            Wait::Sleep => Duration::MAX,
        };
        let overslept = self.sleep(number, asleep)?;
        self.look(number)?;
        let taken = start.elapsed();
        self.usual = if overslept { taken - taken / 8 } else { taken };
        while self.ended < number
            && let Some(fence) = self.fences.pop_front()
        {
            self.ended += 1;
            drop(fence);
        }
        Ok(())
    }

    /// Waits until all submissions have ended.
    pub(super) fn wait_for_all(&mut self) -> Result<(), GpuError> {
        self.wait(self.started())
    }

    /// Sleeps for this time, or until a submission has ended. Returns whether the submission ended during the
    /// sleep.
    fn sleep(&self, number: usize, time: Duration) -> Result<bool, GpuError> {
        if time.is_zero() {
            return Ok(false);
        }
        let (raw, fence) = (&self.vulkan().raw, [self.fence(number)]);
        // SAFETY: the fence was submitted to the queue, and belongs to the recording.
        match unsafe { raw.wait_for_fences(&fence, true, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)) } {
            Ok(()) => Ok(true),
            Err(vk::Result::TIMEOUT) => Ok(false),
            Err(error) => self.device.noted(Err(failed("a run")(error))),
        }
    }

    /// Waits until a submission has ended, without recording that it has. Polls at first, then sleeps.
    pub(super) fn look(&self, number: usize) -> Result<(), GpuError> {
        if number <= self.ended {
            return Ok(());
        }
        let start = Instant::now();
        // A software device needs this thread's core for its work.
        let spin = match self.wait {
            _ if self.device.adapter().is_software => Duration::ZERO,
            Wait::Adaptive => 2 * SPIN,
            Wait::Spin | Wait::Yield => Duration::MAX,
            Wait::Sleep => Duration::ZERO,
        };
        let (raw, fence) = (&self.vulkan().raw, self.fence(number));
        // SAFETY: as above.
        let is_over = || unsafe { raw.get_fence_status(fence) };
        // SAFETY: as above.
        let asleep = || unsafe { raw.wait_for_fences(&[fence], true, u64::MAX) };
        loop {
            match is_over() {
                Ok(true) => break,
                Ok(false) if start.elapsed() < spin && self.wait == Wait::Yield => std::thread::yield_now(),
                Ok(false) if start.elapsed() < spin => std::hint::spin_loop(),
                Ok(false) => break self.device.noted(asleep().map_err(failed("a run")))?,
                Err(error) => return self.device.noted(Err(failed("a run")(error))),
            }
        }
        self.fences[number - self.ended - 1].wait_for_signals()
    }
}

impl Drop for Submissions {
    fn drop(&mut self) {
        if let Err(error) = self.wait_for_all() {
            tracing::error!(%error, "device");
            self.vulkan().settle();
        }
        // No submission is pending.
        self.fences.clear();
    }
}
