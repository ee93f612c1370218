//! A discrete-event simulator of services in tiers, whose arbiters choose servers by the same code
//! as the arbiter does: `policy`.
//!
//! Read `flow` first (what a request does), then `server` (how jobs share one), `calendar`.
//!
//! | module | content |
//! |---|---|
//! | `scenario`, `checks` | the JSON input, and its checks |
//! | `engine` | clock, arrivals, ends of work |
//! | `flow` | connections, copies, answers: the arbiter's part |
//! | `disturbance` | neighbours, limping, crashes |
//! | `server`, `quota` | processor sharing and first come, first served, in virtual time; CPU quotas |
//! | `host`, `host_sharing` | cores that all servers share |
//! | `calendar` | pending events |
//! | `distribution` | random times and counts |
//! | `measure`, `report` | batches, intervals, the JSON output |
//! | `many` | scenarios side by side on threads |
//! | `replay` | an arbiter's trace, decision by decision |

#![warn(missing_docs)]

mod calendar;
mod checks;
mod distribution;
mod disturbance;
mod engine;
mod flow;
mod host;
mod host_sharing;
mod many;
mod measure;
mod quota;
mod replay;
mod report;
mod scenario;
mod server;
mod state;
mod tier;

pub use distribution::{CountLaw, TimeLaw};
pub use engine::simulate;
pub use many::{read_input, simulate_all};
pub use replay::{arrivals_s, replay, Difference, Ended, Replay};
pub use report::{LatencyReport, Percentile, Report, Stopped, TierReport};
pub use scenario::{Arrivals, Copies, Discipline, Fault, Hold, Host, Interference, Scenario, Tier};
