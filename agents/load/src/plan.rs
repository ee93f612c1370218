//! A block of load as the runner drew it (`contracts/load-plan.schema.json`), made ready to be sent.

use std::collections::BTreeMap;

use memchr::memmem::Finder;
use serde::de::IgnoredAny;
use serde::Deserialize;

use crate::clock::from_s;
use crate::operation::{HttpRequest, VirtualUser};
use crate::protocol::Protocol;
use crate::refused::Refused;
use crate::target::{Allowed, Service, Target};
use crate::tls::{Tls, TlsOptions};

#[derive(Debug, Deserialize)]
struct PlanFile {
    entries: BTreeMap<String, Vec<String>>,
    load: LoadOptions,
    windows: Vec<WindowOption>,
    operations: Vec<OperationOption>,
    offsets_s: Vec<f64>,
    operation_of: Vec<usize>,
    #[serde(default)]
    client: Option<IgnoredAny>,
    #[serde(default)]
    remote: Option<IgnoredAny>,
    #[serde(default)]
    target: Option<Service>,
    #[serde(default)]
    tls: Option<TlsOptions>,
    #[serde(default)]
    first: u64,
    #[serde(default = "one")]
    step: u64,
    #[serde(default)]
    after: Vec<i64>,
    #[serde(default)]
    think_s: Vec<f64>,
    #[serde(default)]
    columns: Vec<String>,
    #[serde(default)]
    rows: Vec<Vec<String>>,
    #[serde(default)]
    row_of: Vec<usize>,
    #[serde(default = "one")]
    schema: u64,
}

#[derive(Debug, Deserialize)]
struct LoadOptions {
    user: String,
    connect_timeout_s: f64,
    response_timeout_s: f64,
    max_in_flight: usize,
    #[serde(default = "yes")]
    keep_alive: bool,
    #[serde(default = "one")]
    workers: u64,
}

#[derive(Debug, Deserialize)]
struct WindowOption {
    phase: String,
    end_s: f64,
}

#[derive(Debug, Deserialize)]
struct OperationOption {
    name: String,
    request: String,
    check: String,
    entry: String,
    #[serde(default)]
    http: Option<HttpRequest>,
}

fn one() -> u64 {
    1
}

fn yes() -> bool {
    true
}

/// An operation.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Name in the records.
    pub name: String,
    /// Text that a good reply contains.
    pub check: Finder<'static>,
    /// Routes, one for each URL of its entry: arrival `index` takes number `index` modulo their
    /// count.
    pub routes: Vec<Route>,
    /// Over HTTP, made anew for each arrival.
    pub http: Option<HttpRequest>,
}

/// Target and bytes of an operation.
#[derive(Debug, Clone)]
pub struct Route {
    /// Place in `Plan::targets`.
    pub target: usize,
    /// The request, ready to be sent; empty where it is made for each arrival.
    pub bytes: Vec<u8>,
}

/// A phase, up to an offset.
#[derive(Debug, Clone)]
pub struct Window {
    /// Name.
    pub phase: String,
    /// End, from the block's start.
    pub end_ns: i64,
}

/// A block of load.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The workload's name.
    pub user: String,
    /// Targets.
    pub targets: Vec<Target>,
    /// TLS of the secure ones among them.
    pub(crate) tls: Option<Tls>,
    /// Operations.
    pub operations: Vec<Operation>,
    /// Start of each request, from the block's start; in order.
    pub offsets_ns: Vec<i64>,
    /// Operation of each request, an index into `operations`.
    pub operation_of: Vec<u32>,
    /// Phases, in order.
    pub windows: Vec<Window>,
    /// Limit of a connection, from the request's start.
    pub connect_timeout_ns: i64,
    /// Limit of a whole answer, from the send.
    pub response_timeout_ns: i64,
    /// Requests under way at most.
    pub max_in_flight: usize,
    /// True if connections are used again.
    pub keep_alive: bool,
    /// Threads that share the load.
    pub workers: usize,
    /// The step before each in its session, a place; none for those that leave at their offset.
    after: Vec<Option<u32>>,
    /// The step after each, likewise.
    before: Vec<Option<u32>>,
    think_ns: Vec<i64>,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    row_of: Vec<usize>,
    /// The first arrival's number in the block.
    first: u64,
    /// Step between arrivals.
    step: u64,
}

impl Plan {
    /// Reads and checks a plan.
    pub fn parse(json: &[u8], on_load_machine: bool) -> Result<Self, Refused> {
        let file: PlanFile = serde_json::from_slice(json)
            .map_err(|error| Refused::new("plan", "one of load-plan.schema.json", error))?;
        file.check()?;
        let allowed = Allowed { on_load_machine, service: file.target.clone() };
        let mut targets: Vec<Target> = vec![];
        let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (tier, urls) in &file.entries {
            for url in urls {
                let target = Target::parse(url, &allowed)?;
                let position = targets.iter().position(|other| *other == target);
                let place = position.unwrap_or(targets.len());
                if position.is_none() {
                    targets.push(target);
                }
                places.entry(tier).or_default().push(place);
            }
        }
        let tls = file.tls.as_ref().map(Tls::new).transpose()?;
        if tls.is_none() && targets.iter().any(|target| target.secure) {
            return Err(Refused::new("tls", "one beside entries of https", "none"));
        }
        let operations = file
            .operations
            .iter()
            .map(|operation| operation.routed(&targets, &places, file.load.keep_alive))
            .collect::<Result<_, _>>()?;
        let mut before = vec![None; file.after.len()];
        let after: Vec<Option<u32>> =
            file.after.iter().map(|&place| u32::try_from(place).ok()).collect();
        for (place, step) in after.iter().enumerate() {
            if let Some(step) = step {
                before[*step as usize] = Some(place as u32);
            }
        }
        Ok(Self {
            after,
            before,
            think_ns: file.think_s.iter().copied().map(from_s).collect(),
            columns: file.columns,
            rows: file.rows,
            row_of: file.row_of,
            targets,
            tls,
            operations,
            offsets_ns: file.offsets_s.iter().copied().map(from_s).collect(),
            // In bounds: `check`.
            operation_of: file.operation_of.iter().map(|&place| place as u32).collect(),
            windows: file.windows.iter().map(WindowOption::window).collect(),
            connect_timeout_ns: from_s(file.load.connect_timeout_s),
            response_timeout_ns: from_s(file.load.response_timeout_s),
            max_in_flight: file.load.max_in_flight,
            keep_alive: file.load.keep_alive,
            workers: file.load.workers.max(1) as usize,
            first: file.first,
            step: file.step,
            user: file.load.user,
        })
    }

    /// Number of arrivals.
    pub fn len(&self) -> usize {
        self.offsets_ns.len()
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.offsets_ns.is_empty()
    }

    /// The number in the block of arrival `place`.
    pub fn index_of(&self, place: usize) -> u64 {
        self.first + self.step * place as u64
    }

    /// Operation of arrival `place`.
    pub fn operation(&self, place: usize) -> &Operation {
        &self.operations[self.operation_of[place] as usize]
    }

    /// Route of arrival `place`.
    pub fn route(&self, place: usize) -> &Route {
        let routes = &self.operation(place).routes;
        &routes[(self.index_of(place) % routes.len() as u64) as usize]
    }

    /// True if an arrival leaves at its offset: it is no step after another.
    pub fn begins(&self, place: usize) -> bool {
        !matches!(self.after.get(place), Some(Some(_)))
    }

    /// The step after arrival `place`, and the wait before it.
    pub fn following(&self, place: usize) -> Option<(usize, i64)> {
        let next = (*self.before.get(place)?)? as usize;
        Some((next, self.think_ns[next]))
    }

    /// True if arrivals wait for answers to others.
    pub fn has_sessions(&self) -> bool {
        !self.after.is_empty()
    }

    /// The user that begins with arrival `place`.
    pub fn user_of(&self, place: usize) -> VirtualUser {
        let mut user = VirtualUser::default();
        if let Some(&row) = self.row_of.get(place) {
            let pairs = self.columns.iter().cloned().zip(self.rows[row].iter().cloned());
            user.values.extend(pairs);
        }
        user
    }

    /// The phase of arrival `place`.
    pub fn phase(&self, place: usize) -> &str {
        let offset_ns = self.offsets_ns[place];
        let window = self.windows.iter().find(|window| offset_ns < window.end_ns);
        window.or(self.windows.last()).map_or("", |window| &window.phase)
    }

    /// The same with every `count`-th arrival from `number` on: of several workers each has one.
    pub fn share(mut self, number: usize, count: usize) -> Self {
        let every = |place: &usize| place % count == number;
        let places: Vec<usize> = (0..self.len()).filter(every).collect();
        self.offsets_ns = places.iter().map(|&place| self.offsets_ns[place]).collect();
        self.operation_of = places.iter().map(|&place| self.operation_of[place]).collect();
        if !self.row_of.is_empty() {
            self.row_of = places.iter().map(|&place| self.row_of[place]).collect();
        }
        self.max_in_flight = part(self.max_in_flight, number, count).max(1);
        self.workers = self.workers.min(self.max_in_flight);
        self.first += self.step * number as u64;
        self.step *= count as u64;
        self
    }
}

/// Part `number` of `count` of a whole, as even as can be.
pub fn part(whole: usize, number: usize, count: usize) -> usize {
    whole / count + usize::from(number < whole % count)
}

impl PlanFile {
    fn check(&self) -> Result<(), Refused> {
        if !(1..=2).contains(&self.schema) {
            return Err(Refused::new("schema", "1 or 2", self.schema));
        }
        if self.client.is_some() {
            return Err(Refused::new(
                "client",
                "none: it is Python, and sent by worker = \"locust\"",
                "one",
            ));
        }
        if self.remote.is_some() {
            return Err(Refused::new(
                "load",
                "one machine: worker = \"locust\" has several",
                "workers on other machines",
            ));
        }
        let (arrivals, chosen) = (self.offsets_s.len(), self.operation_of.len());
        if arrivals != chosen || arrivals > u32::MAX as usize {
            let expected = "as many offsets as operations, less than 2^32";
            return Err(Refused::new("offsets_s", expected, format!("{arrivals} and {chosen}")));
        }
        let is_good = |offset: &f64| (0.0..1e9).contains(offset);
        if !self.offsets_s.iter().all(is_good)
            || self.offsets_s.windows(2).any(|pair| pair[0] > pair[1])
        {
            return Err(Refused::new("offsets_s", "times of at least 0, in order", "others"));
        }
        let count = self.operations.len();
        if let Some(wrong) = self.operation_of.iter().find(|&&place| place >= count) {
            return Err(Refused::new(
                "operation_of",
                format!("places in {count} operations"),
                wrong,
            ));
        }
        self.check_sessions()?;
        let load = &self.load;
        let limits = [load.connect_timeout_s, load.response_timeout_s];
        let is_valid = limits.iter().all(|limit| *limit > 0.0 && *limit <= 3600.0);
        let workers = 1..=load.max_in_flight.min(256) as u64;
        if !is_valid || !workers.contains(&load.workers) || self.step == 0 {
            return Err(Refused::new(
                "load",
                "limits above 0, at least one request in flight for each worker, a step",
                format!("{load:?}, step {}", self.step),
            ));
        }
        Ok(())
    }
}

impl PlanFile {
    /// Sessions and values: places in bounds, each step after one that comes before it.
    fn check_sessions(&self) -> Result<(), Refused> {
        let arrivals = self.offsets_s.len();
        let fits = |count: usize| count == 0 || count == arrivals;
        let is_after = |(place, &step): (usize, &i64)| step < 0 || (step as usize) < place;
        let mut steps: Vec<i64> = self.after.iter().copied().filter(|step| *step >= 0).collect();
        let count = steps.len();
        steps.sort_unstable();
        steps.dedup();
        let is_valid = fits(self.after.len())
            && self.think_s.len() == self.after.len()
            && fits(self.row_of.len())
            && self.after.iter().enumerate().all(is_after)
            && steps.len() == count
            && self.think_s.iter().all(|think_s| (0.0..1e6).contains(think_s))
            && self.row_of.iter().all(|&row| row < self.rows.len())
            && self.rows.iter().all(|row| row.len() == self.columns.len());
        if !is_valid {
            return Err(Refused::new(
                "sessions",
                "sessions and values for each arrival, each step after one of before",
                "others",
            ));
        }
        if !self.after.is_empty() && self.load.workers > 1 {
            return Err(Refused::new("load.workers", "1 with sessions", self.load.workers));
        }
        Ok(())
    }
}

impl WindowOption {
    fn window(&self) -> Window {
        Window { phase: self.phase.clone(), end_ns: from_s(self.end_s) }
    }
}

impl OperationOption {
    fn routed(
        &self,
        targets: &[Target],
        places: &BTreeMap<&str, Vec<usize>>,
        keep_alive: bool,
    ) -> Result<Operation, Refused> {
        let Some(urls) = places.get(self.entry.as_str()) else {
            let tiers: Vec<&str> = places.keys().copied().collect();
            let expected = format!("operation {}: an entry of {}", self.name, tiers.join(", "));
            return Err(Refused::new("operations.entry", expected, &self.entry));
        };
        let routes = urls.iter().map(|&place| {
            let target = &targets[place];
            let bytes = match &self.http {
                Some(_) if target.protocol == Protocol::Http => Some(vec![]),
                Some(_) => None,
                None => target.protocol.request(&target.host, &self.request, keep_alive),
            };
            let bytes = bytes.ok_or_else(|| {
                let expected = format!("operation {}: {}", self.name, target.protocol.form());
                Refused::new("operations.request", expected, &self.request)
            })?;
            Ok(Route { target: place, bytes })
        });
        Ok(Operation {
            name: self.name.clone(),
            check: Finder::new(self.check.as_bytes()).into_owned(),
            http: self.http.clone(),
            routes: routes.collect::<Result<_, _>>()?,
        })
    }
}
