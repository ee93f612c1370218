//! Frames that wait in user space, in the order in which they are due: bounded, and counted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::Duration;

/// Maximum waiting packets; further ones are dropped. At 1,500 bytes it is 15 MB.
const FRAMES_MAX: usize = 10_000;

/// Counts of the frames so far.
#[derive(Debug, Default)]
pub struct Counts {
    /// Frames that the fault was for.
    pub taken: AtomicU64,
    /// Packets that the fault met.
    pub struck: AtomicU64,
    /// Packets that were passed on.
    pub passed: AtomicU64,
    /// Total time for which those were held [us].
    pub held_us: AtomicU64,
    /// Frames that came while the queue was full.
    pub overflowed: AtomicU64,
    /// Reason for holding no more frames, once there is one.
    pub end: Mutex<Option<String>>,
}

/// The fate of one frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// Time at which it is passed on, since the fault began.
    pub due: Duration,
    /// True if the fault was for it, and true if it was met.
    pub taken: bool,
    pub struck: bool,
}

/// The effect of a fault on frames.
pub trait PacketTransform: Send {
    /// Decides about a frame, and may change it; `now` since the fault began.
    fn treat(&mut self, frame: &mut [u8], is_outgoing: bool, now: Duration) -> Verdict;

    /// True if a frame is struck that later ones of its direction have overtaken.
    fn strikes_by_overtaking(&self) -> bool {
        false
    }
}

/// The frames that are held.
#[derive(Debug, Default)]
pub struct Queue {
    packets: BinaryHeap<Reverse<Packet>>,
    number: u64,
    /// Latest number that was passed on, by direction.
    last_numbers: [u64; 2],
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    due: Duration,
    number: u64,
    arrival: Duration,
    is_outgoing: bool,
    frame: Vec<u8>,
}

impl Queue {
    /// Takes a frame that has come.
    pub fn take(
        &mut self,
        mut frame: Vec<u8>,
        is_outgoing: bool,
        now: Duration,
        transform: &mut dyn PacketTransform,
        counts: &Counts,
    ) {
        if self.packets.len() >= FRAMES_MAX {
            counts.overflowed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let verdict = transform.treat(&mut frame, is_outgoing, now);
        counts.taken.fetch_add(verdict.taken.into(), Ordering::Relaxed);
        counts.struck.fetch_add(verdict.struck.into(), Ordering::Relaxed);
        self.number += 1;
        self.packets.push(Reverse(Packet {
            due: verdict.due,
            number: self.number,
            arrival: now,
            is_outgoing,
            frame,
        }));
    }

    /// The next frame that is due.
    pub fn next(
        &mut self,
        now: Duration,
        transform: &dyn PacketTransform,
        counts: &Counts,
    ) -> Option<Vec<u8>> {
        if self.due()? > now {
            return None;
        }
        let Reverse(packet) = self.packets.pop()?;
        let last = &mut self.last_numbers[usize::from(packet.is_outgoing)];
        let was_overtaken = *last > packet.number;
        *last = packet.number.max(*last);
        let held_us = now.saturating_sub(packet.arrival).as_micros() as u64;
        counts.passed.fetch_add(1, Ordering::Relaxed);
        counts.held_us.fetch_add(held_us, Ordering::Relaxed);
        let struck = was_overtaken && transform.strikes_by_overtaking();
        counts.struck.fetch_add(struck.into(), Ordering::Relaxed);
        Some(packet.frame)
    }

    /// Time at which the next packet is due.
    pub fn due(&self) -> Option<Duration> {
        self.packets.peek().map(|Reverse(packet)| packet.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds a frame for as many milliseconds as its first byte says.
    struct Told;

    impl PacketTransform for Told {
        fn treat(&mut self, frame: &mut [u8], _is_outgoing: bool, now: Duration) -> Verdict {
            Verdict { due: now + ms(frame[0].into()), taken: true, struck: false }
        }

        fn strikes_by_overtaking(&self) -> bool {
            true
        }
    }

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn frames_go_on_when_they_are_due_and_those_of_one_time_as_they_came() {
        let (mut queue, counts) = (Queue::default(), Counts::default());
        for frame in [[9, 0], [5, 1], [5, 2]] {
            queue.take(frame.to_vec(), true, ms(0), &mut Told, &counts);
        }
        assert_eq!(queue.next(ms(4), &Told, &counts), None);
        let mut order = Vec::new();
        while let Some(frame) = queue.next(ms(10), &Told, &counts) {
            order.push(frame[1]);
        }
        assert_eq!(order, [1, 2, 0]);
        assert_eq!(counts.passed.load(Ordering::Relaxed), 3);
        assert_eq!(counts.held_us.load(Ordering::Relaxed), 30_000);
        assert_eq!(counts.struck.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_frame_is_overtaken_only_by_those_of_its_own_direction() {
        let (mut queue, counts) = (Queue::default(), Counts::default());
        queue.take(vec![9], true, ms(0), &mut Told, &counts);
        queue.take(vec![1], false, ms(0), &mut Told, &counts);
        while queue.next(ms(10), &Told, &counts).is_some() {}
        assert_eq!(counts.struck.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_full_queue_takes_no_more_and_counts_them() {
        let (mut queue, counts) = (Queue::default(), Counts::default());
        for _ in 0..FRAMES_MAX + 7 {
            queue.take(vec![1], true, ms(0), &mut Told, &counts);
        }
        assert_eq!(counts.overflowed.load(Ordering::Relaxed), 7);
        assert_eq!(counts.taken.load(Ordering::Relaxed), FRAMES_MAX as u64);
    }
}
