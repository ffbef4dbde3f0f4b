//! What a lane hands to its queue, one after the other, each with a fence that tells when it has ended.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ash::vk;

use crate::device::Device;
use crate::device::vulkan::{Vulkan, failed};
use crate::execute::MAX_PENDING;
use crate::kernel::GpuError;

/// How long a wait looks again and again on either side of the time at which it should be over: waking up takes about as
/// long as a small network.
const SPIN: Duration = Duration::from_micros(500);

/// Submissions of one lane. They are numbered from 1, and none ends before those ahead of it.
pub(super) struct Submissions {
    device: Device,
    /// The number of the queue that they go to.
    queue: usize,
    /// Those of the submissions that are not known to have ended, in their order.
    fences: VecDeque<vk::Fence>,
    /// How many are known to have ended.
    ended: usize,
    /// How long the last wait took, if its end was not slept through.
    usual: Duration,
}

impl Submissions {
    pub(super) fn new(device: &Device, queue: usize) -> Self {
        let fences = VecDeque::with_capacity(MAX_PENDING);
        Self { device: device.clone(), queue, fences, ended: 0, usual: Duration::ZERO }
    }

    fn vulkan(&self) -> &Vulkan {
        self.device.vulkan().expect("recordings are made where it is")
    }

    /// That of a submission that is not known to have ended.
    fn fence(&self, number: usize) -> vk::Fence {
        self.fences[number - self.ended - 1]
    }

    /// The number of the last submission.
    fn started(&self) -> usize {
        self.ended + self.fences.len()
    }

    /// Hands whole command buffers over, which may be under way already, and gives the submission's number. Where too many
    /// are under way it waits for the first of them.
    pub(super) fn submit(&mut self, buffers: &[vk::CommandBuffer]) -> Result<usize, GpuError> {
        if self.fences.len() == MAX_PENDING {
            self.wait(self.ended + 1)?;
        }
        let submit = vk::SubmitInfo::default().command_buffers(buffers);
        let vulkan = self.vulkan();
        let fence = self.device.noted(vulkan.fence())?;
        let queue = vulkan.queue(self.queue);
        // SAFETY: the command buffers are whole and may be under way several times; the fence is not in use.
        let submitted = unsafe { vulkan.raw.queue_submit(*queue, &[submit], fence) };
        drop(queue);
        if submitted.is_err() {
            // SAFETY: what was refused signals nothing.
            unsafe { vulkan.raw.destroy_fence(fence, None) };
        }
        self.device.noted(submitted.map_err(failed("the queue")))?;
        self.fences.push_back(fence);
        Ok(self.started())
    }

    /// How many may be under way.
    pub(super) fn pending(&self) -> usize {
        self.fences.len()
    }

    /// Whether all have ended, waited for or not.
    pub(super) fn is_idle(&self) -> Result<bool, GpuError> {
        if self.pending() == 0 {
            return Ok(true);
        }
        // SAFETY: the fence was handed to the queue with the submission, and is the recording's own.
        let is_over = unsafe { self.vulkan().raw.get_fence_status(self.fence(self.started())) };
        self.device.noted(is_over.map_err(failed("a run")))
    }

    /// Whether a submission was waited for.
    pub(super) fn has_ended(&self, number: usize) -> bool {
        (1..=self.ended).contains(&number)
    }

    /// Waits until a submission has ended: asleep, but for the time around that at which the last wait was over.
    pub(super) fn wait(&mut self, number: usize) -> Result<(), GpuError> {
        if number <= self.ended {
            return Ok(());
        }
        let start = Instant::now();
        let overslept = self.sleep(number, self.usual.saturating_sub(SPIN))?;
        self.look(number)?;
        let taken = start.elapsed();
        self.usual = if overslept { taken - taken / 8 } else { taken };
        while self.ended < number
            && let Some(fence) = self.fences.pop_front()
        {
            self.ended += 1;
            // SAFETY: the submission has ended, and its fence was the recording's own.
            self.device.noted(unsafe { self.vulkan().keep(fence) })?;
        }
        Ok(())
    }

    /// Waits until all have ended.
    pub(super) fn wait_for_all(&mut self) -> Result<(), GpuError> {
        self.wait(self.started())
    }

    /// Sleeps for a while, or until a submission has ended; whether it has.
    fn sleep(&self, number: usize, time: Duration) -> Result<bool, GpuError> {
        if time.is_zero() {
            return Ok(false);
        }
        let (raw, fence) = (&self.vulkan().raw, [self.fence(number)]);
        // SAFETY: the fence was handed to the queue with the submission, and is the recording's own.
        match unsafe { raw.wait_for_fences(&fence, true, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)) } {
            Ok(()) => Ok(true),
            Err(vk::Result::TIMEOUT) => Ok(false),
            Err(error) => self.device.noted(Err(failed("a run")(error))),
        }
    }

    /// As [`Submissions::wait`], for those that only look on: again and again at first, then asleep.
    pub(super) fn look(&self, number: usize) -> Result<(), GpuError> {
        if number <= self.ended {
            return Ok(());
        }
        let start = Instant::now();
        // Software needs this thread's core for the work itself.
        let spin = if self.device.adapter().is_software { Duration::ZERO } else { 2 * SPIN };
        let (raw, fence) = (&self.vulkan().raw, self.fence(number));
        // SAFETY: as above.
        let is_over = || unsafe { raw.get_fence_status(fence) };
        // SAFETY: as above.
        let asleep = || unsafe { raw.wait_for_fences(&[fence], true, u64::MAX) };
        loop {
            match is_over() {
                Ok(true) => return Ok(()),
                Ok(false) if start.elapsed() < spin => std::hint::spin_loop(),
                Ok(false) => return self.device.noted(asleep().map_err(failed("a run"))),
                Err(error) => return self.device.noted(Err(failed("a run")(error))),
            }
        }
    }
}

impl Drop for Submissions {
    fn drop(&mut self) {
        if let Err(error) = self.wait_for_all() {
            tracing::error!(%error, "device");
            self.vulkan().settle();
        }
        let raw = &self.vulkan().raw;
        // SAFETY: nothing that was submitted is under way.
        unsafe { self.fences.iter().for_each(|fence| raw.destroy_fence(*fence, None)) };
    }
}
