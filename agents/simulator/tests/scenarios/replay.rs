//! Traces that are not what they should be.

use policy::trace::Header;
use policy::{Policy, Settings};
use simulator::{arrivals_s, replay, Ended};

const CALLS: &str = "\
acquire now_us=1000 request=0 r=1 probes=true exclude=- avoid=- -> grants=0@0 waiting=0 hedge=-
observe now_us=2000 server=0 latency_us=900 -> grants=-
release now_us=2001 server=0 -> grants=-
acquire now_us=251000 request=1 r=1 probes=true exclude=0 avoid=- -> grants=1@1 waiting=0 hedge=-
acquire now_us=501000 request=2 r=3 probes=true exclude=- avoid=1 -> grants=2@2,2@0,2@1 waiting=0 hedge=-
";

fn trace(calls: &str) -> String {
    let header = Header(Settings::new(Policy::default(), 3));
    format!("{header}\n{calls}")
}

fn refusal(text: &str) -> String {
    replay("web.trace", text.as_bytes())
        .unwrap_err()
        .to_string()
}

#[test]
fn a_trace_of_a_killed_arbiter_is_replayed_to_its_end() {
    let done = replay("web.trace", trace(CALLS).as_bytes()).unwrap();
    assert_eq!(done.first_difference, None);
    assert_eq!((done.compared, done.equal, done.grants), (5, 5, 5));
    assert_eq!(done.ended, Ended::Cut);
}

#[test]
fn its_arrivals_are_those_of_requests_that_come_for_the_first_time() {
    let text = trace(CALLS);
    assert_eq!(arrivals_s("a", text.as_bytes()).unwrap(), [0.0, 0.5]);
}

#[test]
fn what_is_not_a_trace_is_refused_with_the_line_what_was_expected_and_what_came() {
    let good = trace(CALLS);
    let last = good.trim_end();
    for (text, message) in [
        (
            "".to_owned(),
            "web.trace:1: expected a first line \"trace version=3 ...\", but got an empty file",
        ),
        (
            "{}\n".to_owned(),
            "web.trace:1: expected a first line \"trace version=3 ...\", but got \"{}\"",
        ),
        (
            good.replace("version=3", "version=2"),
            "web.trace:1: expected a trace of version 3, but got \"version 2\"",
        ),
        (
            good.replace("servers=3", "servers=0"),
            "web.trace:1: expected servers= and 1 to 1000, but got \"servers=0\"",
        ),
        (
            good.replace("servers=3", "servers=4294967296"),
            "web.trace:1: expected servers= and 1 to 1000",
        ),
        (
            good.replace("kind=round-robin", "kind=fair"),
            "web.trace:1: expected kind= and the name of a policy",
        ),
        (
            good.replace("extra_load_max=-", "extra_load_max=NaN"),
            "web.trace:1: expected extra_load_max= and",
        ),
        (
            last[..last.len() - 30].to_owned(),
            "web.trace:6: expected a whole line, but got the beginning of one",
        ),
        (
            good.replace(" -> ", "\n-> "),
            "web.trace:2: expected a call, \" -> \" and its outcome, but got \"acquire",
        ),
        (
            good.replace("release", "relase"),
            "web.trace:4: expected the name of a call, but got \"relase\"",
        ),
        (
            good.replace("request=0", "requst=0"),
            "web.trace:2: expected request= and a number, but got \"requst=0\"",
        ),
        (
            good.replace("exclude=0", "exclude=3"),
            "web.trace:5: expected exclude= and servers 0 to 2 or -, but got \"exclude=3\"",
        ),
        (
            good.replace("2001 server=0", "2001 server=2"),
            "web.trace:4: expected a release of a server that is in use",
        ),
        (
            good.replace("latency_us=900", "latency_us=-9"),
            "web.trace:3: expected observe= and latency_us=",
        ),
        (
            good.replace("now_us=2001", "now_us=18446744073709551615"),
            "web.trace:4: expected now_us= and microseconds, at most 2^53",
        ),
        (
            good.replace("release now_us=2001 server=0 -> grants=-\n", "\n"),
            "web.trace:4: expected a line of a trace, but got an empty one",
        ),
        (
            format!("{good}end reason=exit calls=6\n"),
            "web.trace:7: expected 6 calls before this line, but got 5",
        ),
        (
            format!("{good}end reason=exit calls=5\nmore\n"),
            "web.trace:8: expected nothing after the line \"end ...\", but got \"more\"",
        ),
    ] {
        let refused = refusal(&text);
        assert!(refused.starts_with(message), "{refused}\nnot: {message}");
    }
    let binary = replay("web.trace", &b"trace \xff\xfe\n"[..]).unwrap_err();
    assert!(
        binary
            .to_string()
            .starts_with("web.trace:1: expected a line of text"),
        "{binary}"
    );
}
