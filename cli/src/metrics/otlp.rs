//! OpenTelemetry's metrics as JSON (OTLP 1.x), sent to a collector over HTTP/1.1.
//!
//! Only `http://`: a collector is on the same machine or in the same cluster, and one that wants TLS stands behind one that does not.
//!
//! Must not: wait for a collector longer than [`PATIENCE`] for each step.

use super::families::{Family, Kind, Sample};
use crate::Failure;
use serde_json::{json, Value};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long connecting, sending and the answer may each take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The port of a collector.
const PORT: u16 = 4318;
/// The path of its metrics.
const PATH: &str = "/v1/metrics";
/// Bytes of an answer that are looked at: its first line is in them.
const MOST_ANSWER: u64 = 4096;

/// Where metrics are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Collector {
    /// As the header `Host` has it.
    host: String,
    /// With the port.
    address: String,
    path: String,
}

impl Collector {
    /// Takes a URL apart.
    pub fn parse(url: &str) -> Result<Self, String> {
        let Some(rest) = url.strip_prefix("http://") else {
            return Err("only http:// is sent to; a collector of your own takes it on to one with https://".to_owned());
        };
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || host.contains('@') || !is_plain(rest) {
            return Err("not a URL: http://HOST:4318/v1/metrics".to_owned());
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { host.to_owned() } else { format!("{host}:{PORT}") };
        let path = if path.len() < 2 { PATH } else { path };
        Ok(Self { host: host.to_owned(), address, path: path.to_owned() })
    }

    /// Sends metrics.
    pub fn send(&self, families: &[Family]) -> Result<(), Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let body = body(families, u64::try_from(now.as_nanos()).unwrap_or(0)).to_string();
        let failure = |why: String| Failure::Input(format!("http://{}{}: {why}", self.host, self.path));
        let answer = self.post(&body).map_err(|error| failure(error.to_string()))?;
        let line = answer.lines().next().unwrap_or_default();
        match line.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok()) {
            Some(200..300) => Ok(()),
            Some(_) => Err(failure(format!("the collector answered {line:?}"))),
            None => Err(failure("what answered is no HTTP server".to_owned())),
        }
    }

    fn post(&self, body: &str) -> io::Result<String> {
        let mut stream = Err(io::Error::from(io::ErrorKind::NotFound));
        for address in self.address.to_socket_addrs()? {
            stream = TcpStream::connect_timeout(&address, PATIENCE);
            if stream.is_ok() {
                break;
            }
        }
        let mut stream = stream?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let Self { host, path, .. } = self;
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             User-Agent: lazyguard/{}\r\nConnection: close\r\n\r\n{body}",
            env!("CARGO_PKG_VERSION")
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        let mut buffer = [0; 512];
        let mut limited = stream.take(MOST_ANSWER);
        // The first line is enough: a server may keep the connection open.
        while !answer.contains(&b'\n') {
            match limited.read(&mut buffer)? {
                0 => break,
                count => answer.extend_from_slice(&buffer[..count]),
            }
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

/// The request `ExportMetricsServiceRequest`.
fn body(families: &[Family], now: u64) -> Value {
    let point = |sample: &Sample| {
        let attribute = |(key, value): &(&str, String)| json!({ "key": key, "value": { "stringValue": value } });
        json!({
            "attributes": sample.labels.iter().map(attribute).collect::<Vec<_>>(),
            // 64-bit numbers are texts in this JSON.
            "timeUnixNano": now.to_string(),
            "asDouble": sample.value,
        })
    };
    let metric = |family: &Family| {
        let points: Vec<_> = family.samples.iter().map(point).collect();
        let unit = if family.name.contains("_seconds") { "s" } else { "1" };
        let about = json!({ "name": family.name, "description": family.help, "unit": unit });
        let (key, data) = match family.kind {
            // 2: cumulative, since the process began.
            Kind::Counter => ("sum", json!({ "dataPoints": points, "aggregationTemporality": 2, "isMonotonic": true })),
            Kind::Gauge => ("gauge", json!({ "dataPoints": points })),
        };
        let mut about = about;
        about[key] = data;
        about
    };
    let scope = json!({ "name": "lazyguard", "version": env!("CARGO_PKG_VERSION") });
    let service = json!({ "key": "service.name", "value": { "stringValue": "lazyguard" } });
    json!({ "resourceMetrics": [{
        "resource": { "attributes": [service] },
        "scopeMetrics": [{ "scope": scope, "metrics": families.iter().map(metric).collect::<Vec<_>>() }],
    }] })
}

#[cfg(test)]
mod tests {
    use super::super::families;
    use super::*;
    use crate::live::{sample, ProcessNow};
    use std::net::TcpListener;

    #[test]
    fn a_url_is_taken_apart_and_has_the_collectors_port_and_path() {
        let of = |url| Collector::parse(url).map(|c| (c.host, c.address, c.path));
        let parts = |host: &str, address: &str, path: &str| Ok((host.into(), address.into(), path.into()));
        assert_eq!(of("http://c"), parts("c", "c:4318", "/v1/metrics"));
        assert_eq!(of("http://[::1]:80/"), parts("[::1]:80", "[::1]:80", "/v1/metrics"));
        assert_eq!(of("http://c:80/otlp/v1/metrics"), parts("c:80", "c:80", "/otlp/v1/metrics"));
        for bad in ["https://c", "c:4318", "http://", "http:///x", "http://u:p@c", "http://c/a b", "http://c\r\nX: y"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    /// A collector that reads one request and gives this answer.
    fn sent_to(answer: &'static str) -> (Result<(), Failure>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut text, mut buffer) = (String::new(), [0; 4096]);
            loop {
                let count = stream.read(&mut buffer).unwrap();
                text += std::str::from_utf8(&buffer[..count]).unwrap();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
                if body.len() == length.parse::<usize>().unwrap() {
                    break;
                }
            }
            stream.write_all(answer.as_bytes()).unwrap();
            text
        });
        let now = ProcessNow { launches: 7, ..sample() };
        let sent = Collector::parse(&url).unwrap().send(&families::of(&[now]));
        (sent, server.join().unwrap())
    }

    #[test]
    fn metrics_are_posted_as_a_collector_takes_them() {
        let (sent, request) = sent_to("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
        assert!(sent.is_ok(), "{sent:?}");
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\nHost: 127.0.0.1:"), "{head}");
        let body: Value = serde_json::from_str(body).unwrap();
        let metrics = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
        let named = |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap();
        let launches = &named("lazyguard_launches_total")["sum"];
        assert_eq!((&launches["isMonotonic"], &launches["aggregationTemporality"]), (&json!(true), &json!(2)));
        let point = &launches["dataPoints"][0];
        assert_eq!(point["asDouble"], 7.0);
        assert_eq!(point["attributes"][1], json!({ "key": "rank", "value": { "stringValue": "3" } }));
        assert!(point["timeUnixNano"].as_str().unwrap().parse::<u64>().unwrap() > 1_700_000_000_000_000_000);
        assert_eq!(named("lazyguard_hang_seconds")["unit"], "s");
        assert!(named("lazyguard_hang")["gauge"]["dataPoints"][0].is_object());
    }

    #[test]
    fn what_refuses_or_is_no_collector_is_said() {
        let said = |answer| sent_to(answer).0.unwrap_err().to_string();
        let refused = said("HTTP/1.1 415 Unsupported Media Type\r\n\r\n");
        assert!(refused.ends_with("the collector answered \"HTTP/1.1 415 Unsupported Media Type\""), "{refused}");
        assert!(said("SSH-2.0-x\r\n").ends_with("what answered is no HTTP server"));
    }
}
