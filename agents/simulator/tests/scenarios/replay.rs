//! Traces that are not what they should be.

use policy::trace::{Answer, Call, End, Header, Line, Reason, Step, VERSION};
use policy::{Acquired, Observation, Policy, Settings};
use simulator::{arrivals_s, replay, Ended};

fn acquired(
    now_us: u64,
    request: u64,
    r: usize,
    exclude: &'static [usize],
    got: &[usize],
) -> Line<'static> {
    let step = Step::Acquire {
        request,
        r,
        probes: true,
        exclude: exclude.into(),
        avoid: Default::default(),
    };
    let answer = Answer::Acquired(Acquired { granted: r, waiting: 0, hedge: None });
    let grants = got.iter().map(|&server| (request, server)).collect();
    Line::Call(Call { now_us, step, answer, grants })
}

fn call(now_us: u64, step: Step<'static>) -> Line<'static> {
    Line::Call(Call { now_us, step, answer: Answer::Nothing, grants: vec![] })
}

/// A whole trace but for its last line.
fn trace() -> String {
    let settings = Settings::new(Policy::default(), 3);
    let observation = Observation::LatencyUs(900);
    let lines = [
        Line::Begin(Header { version: VERSION, settings }),
        acquired(1_000, 0, 1, &[], &[0]),
        call(2_000, Step::Observe { server: 0, seen: observation }),
        call(2_001, Step::Release { server: 0 }),
        acquired(251_000, 1, 1, &[0], &[1]),
        acquired(501_000, 2, 3, &[], &[2, 0, 1]),
    ];
    lines.iter().map(line).collect()
}

fn line(line: &Line<'_>) -> String {
    serde_json::to_string(line).unwrap() + "\n"
}

fn end(calls: u64) -> String {
    let reason = Reason::Exit;
    line(&Line::End(End { reason, calls }))
}

fn refusal(text: &str) -> String {
    let refused = replay("web.trace", text.as_bytes()).unwrap_err();
    refused.to_string()
}

#[test]
fn a_trace_of_a_killed_arbiter_is_replayed_to_its_end() {
    let result = replay("web.trace", trace().as_bytes()).unwrap();
    assert_eq!(result.first_difference, None);
    assert_eq!((result.compared, result.equal, result.grants), (5, 5, 5));
    assert_eq!(result.ended, Ended::Cut);
}

#[test]
fn its_arrivals_are_those_of_requests_that_come_for_the_first_time() {
    assert_eq!(arrivals_s("a", trace().as_bytes()).unwrap(), [0.0, 0.5]);
}

#[test]
fn what_is_not_a_trace_is_refused_with_the_line_what_was_expected_and_what_came() {
    let good = trace();
    let begin = good.split_inclusive('\n').next().unwrap();
    for (text, message) in [
        (String::new(), "1: expected the first line of a trace (got an empty file)"),
        ("{}\n".into(), "1: expected a line of a trace (got "),
        ("trace version=3 kind=tad\n".into(), "1: expected a line of a trace (got "),
        (end(0), "1: expected the first line of a trace (got {\"end\""),
        (good.replace("\"version\":4", "\"version\":2"), "1: version: expected 4 (got 2)"),
        (good.replace("\"servers\":3", "\"servers\":0"), "1: servers: expected 1 to 1000 (got 0)"),
        (good.replace("round-robin", "fair"), "1: expected a line of a trace (got expected one of"),
        (
            good.replace("\"extra_load_max\":null", "\"extra_load_max\":-1"),
            "1: extra_load_max: expected 0 to",
        ),
        (good[..good.len() - 30].into(), "6: expected a whole line (got the beginning of one)"),
        (
            good.replace("\"answer\"", "\"answr\""),
            "2: expected a line of a trace (got unknown field",
        ),
        (good.replace("release", "relase"), "4: expected a line of a trace (got unknown variant"),
        (good.replace("[0],", "[3],"), "5: exclude: expected 0 to 2 (got 3)"),
        (
            good.replace("\"release\":{\"server\":0", "\"release\":{\"server\":2"),
            "4: expected a release of a server that is in use",
        ),
        (good.replace(":900", ":-9"), "3: expected a line of a trace (got invalid value"),
        (good.replace("2001", "18446744073709551615"), "4: now_us: expected 0 to 9007199254740992"),
        (good.replace(begin, &format!("{begin}\n")), "2: expected a line of a trace (got EOF"),
        (good.clone() + begin, "7: expected one first line of a trace (got another one)"),
        (good.clone() + &end(6), "7: expected 6 calls before this line (got 5)"),
        (good.clone() + &end(5) + &end(5), "8: expected nothing after the last line (got {\"end\""),
    ] {
        let (refused, message) = (refusal(&text), format!("web.trace:{message}"));
        assert!(refused.starts_with(&message), "{refused}\nnot: {message}");
    }
    let binary = replay("web.trace", &b"trace \xff\xfe\n"[..]).unwrap_err();
    let message = "web.trace:1: expected a line of text";
    assert!(binary.to_string().starts_with(message), "{binary}");
}
