use super::*;

#[test]
fn slots_are_found_by_stream_and_all_together() {
    let launchers = Launchers::new(3);
    let all = || {
        let mut all = Vec::new();
        launchers.each(|index| all.push(index));
        all
    };
    assert_eq!((launchers.of(1), all()), (Of::None, vec![]));
    for slot in [65, 65, 3] {
        launchers.add(slot, 1);
    }
    launchers.add(3, 2);
    launchers.add(SLOTS as u32 + 1, 2000);
    assert_eq!(
        [0, 1, 2, 3, 2000].map(|stream| launchers.of(stream)),
        [Of::None, Of::All, Of::One(3), Of::None, Of::None]
    );
    assert_eq!(all(), [0, 2, 64], "two slots may share a bit");
    launchers.begin_stream(1);
    assert_eq!(launchers.of(1), Of::None);
    launchers.add(65, 1);
    assert_eq!(launchers.of(1), Of::One(65));
}
