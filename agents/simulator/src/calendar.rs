//! Pending events, in a calendar (Brown, "Calendar queues", CACM 31(10), 1988).
//!
//! A binary heap of 20,000 pending events costs a dozen cache misses per event. Here a day of
//! `1 << shift` nanoseconds has a chain of its events; the day at hand is sorted, one is taken
//! after the other. Events beyond the year wait in a heap until their day comes into the year. With
//! about one event a day each costs a constant time, however many are pending.
//!
//! Nothing is deleted: a rescheduled event has a new version, and events with an old version are
//! dropped. Events of one instant come in the order of insertion.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

const DAYS: usize = 1 << 15;
const NONE: u32 = u32::MAX;

/// An event: when, and two numbers that mean something to who scheduled it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    pub(crate) at_ns: u64,
    order: u64,
    pub(crate) code: u32,
    pub(crate) version: u32,
}

#[derive(Debug)]
struct Link {
    event: Event,
    next: u32,
}

/// Pending events.
#[derive(Debug)]
pub(crate) struct Calendar {
    shift: u32,
    /// First link of each day's chain.
    days: Vec<u32>,
    links: Vec<Link>,
    free: u32,
    /// The day at hand, counted from time 0, and its events, the last one first.
    day: u64,
    today: Vec<Event>,
    beyond: BinaryHeap<Reverse<Event>>,
    in_days: usize,
    next_order: u64,
}

impl Calendar {
    /// Creates a calendar for about one event each `gap_ns`.
    pub(crate) fn new(gap_ns: f64) -> Self {
        Self {
            shift: gap_ns.clamp(1.0, 1e15).log2().round() as u32,
            days: vec![NONE; DAYS],
            links: Vec::new(),
            free: NONE,
            day: 0,
            today: Vec::new(),
            beyond: BinaryHeap::new(),
            in_days: 0,
            next_order: 0,
        }
    }

    /// Puts an event in; one before the last that came out comes out next.
    pub(crate) fn push(&mut self, at_ns: u64, code: u32, version: u32) {
        let event = Event { at_ns, order: self.next_order, code, version };
        self.next_order += 1;
        let day = at_ns >> self.shift;
        if day <= self.day {
            let place = self.today.partition_point(|other| *other > event);
            self.today.insert(place, event);
        } else if day - self.day < DAYS as u64 {
            self.chain(day, event);
        } else {
            self.beyond.push(Reverse(event));
        }
    }

    /// Time of the next event, if there is one.
    pub(crate) fn next_at_ns(&mut self) -> Option<u64> {
        while self.today.is_empty() {
            if self.in_days == 0 {
                let Reverse(first) = self.beyond.peek()?;
                self.day = first.at_ns >> self.shift;
            } else {
                self.day += 1;
            }
            self.open_day();
        }
        self.today.last().map(|event| event.at_ns)
    }

    /// Takes the next event out.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.next_at_ns()?;
        self.today.pop()
    }

    fn chain(&mut self, day: u64, event: Event) {
        let head = &mut self.days[day as usize & (DAYS - 1)];
        let link = Link { event, next: *head };
        if self.free == NONE {
            *head = self.links.len() as u32;
            self.links.push(link);
        } else {
            *head = self.free;
            let place = &mut self.links[self.free as usize];
            self.free = place.next;
            *place = link;
        }
        self.in_days += 1;
    }

    /// Moves the events of the day at hand into `today`, and those that came into the year.
    fn open_day(&mut self) {
        let mut place = std::mem::replace(&mut self.days[self.day as usize & (DAYS - 1)], NONE);
        while place != NONE {
            let link = &mut self.links[place as usize];
            self.today.push(link.event);
            let next = std::mem::replace(&mut link.next, self.free);
            self.free = place;
            self.in_days -= 1;
            place = next;
        }
        while let Some(Reverse(event)) = self.beyond.peek().copied() {
            let day = event.at_ns >> self.shift;
            if day > self.day && day - self.day >= DAYS as u64 {
                break;
            }
            self.beyond.pop();
            if day <= self.day {
                self.today.push(event);
            } else {
                self.chain(day, event);
            }
        }
        if self.today.len() > 1 {
            self.today.sort_unstable_by(|a, b| b.cmp(a));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gives_events_in_time_and_then_in_order_put_in(
            gap in 1.0..1e6f64,
            steps in prop::collection::vec((0..4u8, 0..50_000_000_000u64), 1..400),
        ) {
            let mut calendar = Calendar::new(gap);
            let mut literal: Vec<(u64, u32)> = Vec::new();
            let (mut now, mut number) = (0, 0);
            for (step, ahead) in steps {
                if step == 0 {
                    literal.sort_unstable();
                    let expected = (!literal.is_empty()).then(|| literal.remove(0));
                    let event = calendar.pop().map(|event| (event.at_ns, event.code));
                    prop_assert_eq!(event, expected);
                    now = event.map_or(now, |(at_ns, _)| at_ns);
                } else {
                    let at_ns = now + ahead % 10u64.pow(4 * u32::from(step) - 1);
                    calendar.push(at_ns, number, 0);
                    literal.push((at_ns, number));
                    number += 1;
                }
            }
        }
    }
}
