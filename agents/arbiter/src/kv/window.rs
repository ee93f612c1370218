//! The number of unanswered commands of a server.
//!
//! Requests at the server, or in the kernel on the way to it, cannot be taken back. Without a limit
//! an overloaded server would get all requests, work on those for which no client waits any more,
//! and be late with everything. So commands that it cannot answer soon stay here, and are dropped
//! when their time is over. The window halves while the server answers but its oldest command waits
//! for two ticks, and grows with every command that it answers sooner. (The rule of congestion
//! windows: Jacobson 1988, with delay instead of loss.)

/// Maximum window, more than any server needs to be busy.
const SIZE_MAX: u64 = 8_192;
/// Ticks at the server after which a command is late.
const TICKS_LATE: u64 = 2;

/// Number of commands that a server may have at a time.
#[derive(Debug)]
pub struct Window {
    size: u64,
    /// Commands that were sent and not answered.
    given: u64,
}

impl Default for Window {
    /// Starts with the maximum.
    fn default() -> Self {
        Self { size: SIZE_MAX, given: 0 }
    }
}

impl Window {
    /// Accounts for commands to be sent, if they fit; true always if none is under way.
    pub fn give(&mut self, commands: u64) -> bool {
        let fits = self.given == 0 || self.given + commands <= self.size;
        if fits {
            self.given += commands;
        }
        fits
    }

    /// Accounts for commands that were answered after this number of ticks.
    pub fn answered(&mut self, commands: u64, ticks: u64) {
        self.given -= commands;
        if ticks < TICKS_LATE {
            self.size = (self.size + commands).min(SIZE_MAX);
        }
    }

    /// Fits the window at a tick in which the server answered, by the age of its oldest command.
    pub fn tick(&mut self, oldest_ticks: u64) {
        if oldest_ticks >= TICKS_LATE {
            self.size = (self.size.min(self.given) / 2).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_nothing_before_it_is_given_however_large_it_is() {
        let mut window = Window::default();
        assert!(window.give(2 * SIZE_MAX));
        assert!(!window.give(1));
        window.answered(2 * SIZE_MAX, 0);
        assert!(window.give(SIZE_MAX) && !window.give(1));
    }

    #[test]
    fn a_slow_server_comes_to_have_what_it_answers_soon_and_a_quick_one_all() {
        let mut window = Window::default();
        assert!((0..1_000).all(|_| window.give(1)));
        for oldest in [0, 1, 2] {
            window.tick(oldest);
        }
        assert_eq!(window.size, 500);
        // It has too much already, however often the window halves.
        window.tick(3);
        assert_eq!(window.size, 250);
        window.answered(990, 9);
        window.tick(9);
        assert_eq!(window.size, 5);
        window.answered(10, 9);
        assert!((0..5).all(|_| window.give(1)) && !window.give(1));
        for _ in 0..20 {
            window.answered(1, 1);
            assert!(window.give(1));
        }
        assert_eq!(window.size, 25);
        window.answered(5, 0);
        for _ in 0..20 {
            let all = window.size;
            assert!(window.give(all));
            window.answered(all, 0);
        }
        assert_eq!(window.size, SIZE_MAX);
    }

    #[test]
    fn it_never_closes() {
        let mut window = Window::default();
        assert!(window.give(1));
        window.tick(9);
        window.tick(9);
        window.answered(1, 9);
        assert!(window.give(1) && window.size == 1);
    }
}
