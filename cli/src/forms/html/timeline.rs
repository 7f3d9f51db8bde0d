//! The timeline: a lane for each thread and stream. It can be read as it is; the script zooms it, and the table says the same.
//!
//! Must not: leave out anything of [`Moments`].

use super::kinds::What;
use super::markup::{short, Attribute, Markup};
use super::moments::{Lane, Moments, Slice, MOST_PROCESSES, MOST_SLICES};
use crate::words::Took;

const WIDTH: i64 = 1200;
const LEFT: i64 = 200;
const RIGHT: i64 = WIDTH - 36;
const AXIS: i64 = 26;
const LANE: i64 = 24;
const NAME: usize = 28;
/// Pixels from which on a slice has room for its label, and those of a letter.
const ROOM: i64 = 46;
const LETTER: i64 = 7;

pub(super) fn draw(page: &mut Markup, moments: &Moments) {
    let height = AXIS + moments.lanes.len() as i64 * LANE + 6;
    page.open("p", &[]).text(format!("Time 0 is {}.", moments.window.zero_is));
    page.text(format!(" At most {MOST_SLICES} slices of {MOST_PROCESSES} processes are kept"));
    page.text(match moments.left_out.is_empty() {
        true => "; here, nothing is left out.".to_owned(),
        false => format!(": {}.", moments.left_out.join("; ")),
    });
    page.text(" All of it, for Perfetto, is what ").say("code", "lazyguard export").text("writes.").close();
    legend(page, moments);
    tools(page);
    let label = "Timeline. The table below it says the same.";
    let lanes = r#"div class="scroll" id="lanes" tabindex="0" role="group" aria-describedby="keys""#;
    page.open(lanes, &[("aria-label", &label)]);
    let scale = Scale::of(moments);
    let attributes: [Attribute<'_>; 7] = [
        ("viewBox", &format!("0 0 {WIDTH} {height}")),
        ("data-from", &scale.from),
        ("data-until", &scale.until),
        ("data-first", &scale.at(moments.window.from)),
        ("data-last", &scale.at(moments.window.until)),
        ("data-left", &LEFT),
        ("data-right", &RIGHT),
    ];
    page.open(r#"svg class="timeline" role="img" aria-labelledby="timeline-title""#, &attributes);
    let title = "What the threads did before the hang; the table below says the same";
    page.say(r#"title id="timeline-title""#, title);
    for (number, lane) in (0..).zip(&moments.lanes) {
        let y = AXIS + number * LANE;
        if number % 2 == 0 {
            page.rect("band", [&0, &y, &WIDTH, &LANE]);
        }
        page.at(r#"text class="lane""#, (6, y + 16), short(&lane.name, NAME));
    }
    page.open(r#"g class="axis""#, &[("data-height", &height)]);
    scale.ticks(page, height);
    page.close().open(r#"g class="slices""#, &[]);
    let lanes = || (0..).zip(&moments.lanes).map(|(number, lane)| (AXIS + number * LANE, lane));
    let slices = lanes().flat_map(|(y, lane)| lane.slices.iter().map(move |slice| (y, slice)));
    slices.enumerate().for_each(|(count, (y, slice))| scale.slice(page, slice, y, count));
    page.close().open(r#"g class="labels""#, &[]);
    lanes().for_each(|(y, lane)| scale.labels(page, lane, y + 16));
    page.close_all(3).say(r#"p id="told" class="told" aria-live="polite""#, "");
    table(page, moments, &scale);
}

fn tools(page: &mut Markup) {
    page.open(r#"div class="tools" id="tools" hidden="""#, &[]);
    for (id, text, label) in [
        ("out", "\u{2212}", "Zoom out"),
        ("in", "+", "Zoom in"),
        ("left", "\u{2190}", "Earlier"),
        ("right", "\u{2192}", "Later"),
        ("all", "All", "Show everything that is kept"),
        ("first", "Hang", "Show what came right before the hang"),
        ("before", "Previous", "Previous event"),
        ("next", "Next", "Next event"),
    ] {
        page.element(r#"button type="button""#, &[("data-do", &id), ("aria-label", &label)], &text);
    }
    let keys = "+ and \u{2212} zoom, arrows move, Home shows all, End the hang, N and P go from event to event.";
    page.say(r#"span id="keys" class="hint""#, format!("Keys in the timeline: {keys}")).close();
}

fn legend(page: &mut Markup, moments: &Moments) {
    page.open(r#"ul class="legend""#, &[]);
    for what in What::all() {
        if moments.lanes.iter().flat_map(|lane| &lane.slices).any(|slice| slice.what == what) {
            page.key(what.class(), what.place()).close().text(what.words()).close();
        }
    }
    page.close();
}

/// Maps times to places in the first view. Times are nanoseconds since time 0.
struct Scale {
    zero: u64,
    from: i128,
    until: i128,
}

const LEAST: i64 = 15;

impl Scale {
    fn of(moments: &Moments) -> Self {
        let scale = Self { zero: moments.window.zero, from: 0, until: 0 };
        let (from, until) = (scale.at(moments.view.0), scale.at(moments.view.1));
        Self { from, until: until.max(from + 1), ..scale }
    }

    fn at(&self, time: u64) -> i128 {
        i128::from(time) - i128::from(self.zero)
    }

    fn x(&self, at: i128) -> i64 {
        let wide = i128::from((RIGHT - LEFT) * 10);
        let from_left = (at.clamp(self.from, self.until) - self.from) * wide / (self.until - self.from);
        LEFT * 10 + i64::try_from(from_left).unwrap_or(0)
    }

    fn place(&self, slice: &Slice) -> Option<(i64, i64)> {
        let (start, end) = (self.at(slice.start), slice.end.map_or(i128::MAX, |end| self.at(end)));
        let is_there = start <= self.until && end >= self.from;
        is_there.then(|| (self.x(start).min(RIGHT * 10 - LEAST), self.x(end)))
    }

    fn slice(&self, page: &mut Markup, slice: &Slice, y: i64, number: usize) {
        let (left, right) = self.place(slice).unwrap_or((LEFT * 10, LEFT * 10));
        let wide = if self.place(slice).is_some() { (right - left).max(LEAST) } else { 0 };
        let (top, high) = slice.what.place();
        let attributes: [Attribute<'_>; 9] = [
            ("class", &slice.what.class()),
            ("x", &tenths(left)),
            ("y", &(y + top)),
            ("width", &tenths(wide)),
            ("height", &high),
            ("data-n", &number),
            ("data-a", &self.at(slice.start)),
            ("data-b", &slice.end.map(|end| self.at(end).to_string()).unwrap_or_default()),
            ("data-l", &short(&slice.label, 60)),
        ];
        page.empty("rect", &attributes);
    }

    fn labels(&self, page: &mut Markup, lane: &Lane, y: i64) {
        for slice in lane.slices.iter().filter(|slice| slice.what.place().1 >= 12) {
            let wide = self.place(slice).filter(|(left, right)| right - left >= ROOM * 10);
            let Some((left, right)) = wide else { continue };
            let letters = usize::try_from((right - left) / 10 / LETTER - 1).unwrap_or(0);
            let place: [Attribute<'_>; 3] = [("x", &tenths(left + 40)), ("y", &y), ("class", &slice.what.class())];
            page.element("text", &place, &short(&slice.label, letters));
        }
    }

    fn ticks(&self, page: &mut Markup, height: i64) {
        let (step, unit, name) = step(self.until - self.from);
        let mut at = self.from.div_euclid(step) * step;
        while at <= self.until {
            if at >= self.from {
                let x = tenths(self.x(at));
                let class = if at == 0 { "zero" } else { "tick" };
                page.empty("line", &[("x1", &x), ("x2", &x), ("y1", &18), ("y2", &height), ("class", &class)]);
                page.at(r#"text text-anchor="middle""#, (x, 13), format!("{} {name}", at as f64 / unit as f64));
            }
            at += step;
        }
    }
}

/// The distance of ticks for a span, and the unit in which they are written.
fn step(span: i128) -> (i128, i128, &'static str) {
    let mut step = 1;
    for factor in [2, 5, 10].into_iter().cycle() {
        if span / step <= 9 {
            break;
        }
        step = 10_i128.pow(step.ilog10()) * factor;
    }
    let (unit, name) = match step {
        1_000_000_000.. => (1_000_000_000, "s"),
        1_000_000.. => (1_000_000, "ms"),
        1_000.. => (1_000, "us"),
        _ => (1, "ns"),
    };
    (step, unit, name)
}

fn tenths(value: i64) -> String {
    format!("{}.{}", value / 10, value % 10)
}

fn since_zero(at: i128) -> String {
    format!("{}{}", if at < 0 { "\u{2212}" } else { "+" }, Took(u64::try_from(at.unsigned_abs()).unwrap_or(u64::MAX)))
}

fn table(page: &mut Markup, moments: &Moments, scale: &Scale) {
    page.open("details", &[]).say("summary", "The timeline as a table");
    let caption = format!("What was done, by thread and stream; time 0 is {}", moments.window.zero_is);
    let columns = ["where", "when", "how long", "kind", "what"];
    page.table("Events of the timeline", r#"table id="events""#, caption, &columns);
    for lane in &moments.lanes {
        for slice in &lane.slices {
            let long = slice.end.map(|end| Took(end.saturating_sub(slice.start)).to_string());
            let (lane, long) = (short(&lane.name, 80), long.as_deref().unwrap_or("no end is known"));
            page.row(&[&lane, &since_zero(scale.at(slice.start)), &long, &slice.what.words(), &slice.text]);
        }
    }
    page.close_all(4);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        for (span, expect) in
            [(1, 1), (9, 1), (25, 5), (1_000_000, 200_000), (5_000_000_000, 1_000_000_000), (7_000, 1_000)]
        {
            assert_eq!(step(span).0, expect, "{span}");
            assert!(span / step(span).0 <= 9);
        }
        assert_eq!(step(5_000_000_000).2, "s");
        assert_eq!(since_zero(-1_500_000), "\u{2212}1.5 ms");
    }

    #[test]
    fn what_lies_outside_is_cut_off() {
        let scale = Scale { zero: 1000, from: -100, until: 100 };
        assert_eq!((scale.x(-100), scale.x(100), scale.x(i128::MAX)), (LEFT * 10, RIGHT * 10, RIGHT * 10));
        let slice = |start, end| Slice { what: What::Load, start, end, label: String::new(), text: String::new() };
        assert_eq!(scale.place(&slice(0, Some(10))), None);
        assert_eq!(scale.place(&slice(0, None)), Some((LEFT * 10, RIGHT * 10)));
        assert_eq!(scale.place(&slice(1200, Some(1300))), None);
        assert_eq!(scale.place(&slice(1000, Some(5000))), Some(((LEFT + RIGHT) * 5, RIGHT * 10)));
    }
}
