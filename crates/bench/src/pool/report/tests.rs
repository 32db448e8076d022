use super::{
    fixture::{OTHER, OWN, report, with_error},
    html, json, text,
};

#[test]
fn pools_are_compared_run_by_run_of_the_same_size() {
    let report = report(&[(2, &[400.0, 800.0, 600.0], &[100.0, 200.0, 150.0])]);
    let ratio = report.ratio(&report.subjects[1]).unwrap();
    assert!((ratio.value - 4.0).abs() < 1e-9 && (ratio.high - ratio.low).abs() < 1e-6);
    assert_eq!(report.subjects[0].rate(), Some(600.0));
    assert!(text::write(&report).contains("4.00 (4.00 to 4.00)"));
}

#[test]
fn one_run_gives_a_ratio_without_an_interval() {
    let report = report(&[(2, &[300.0], &[100.0])]);
    assert!(report.ratio(&report.subjects[1]).is_none());
    assert_eq!(text::ratio(&report, &report.subjects[1]), "3.00");
}

#[test]
fn a_sweep_names_the_best_size_and_the_smallest_that_is_enough() {
    let report = report(&[
        (1, &[50.0], &[10.0]),
        (2, &[95.0], &[20.0]),
        (4, &[100.0], &[40.0]),
        (8, &[80.0], &[30.0]),
    ]);
    let best = report.best(OWN).unwrap();
    assert_eq!((best.workers, best.enough), (4, 2));
    assert!((best.lowest_share - 0.5).abs() < 1e-9);
    assert_eq!(report.best(OTHER).unwrap().workers, 4);
    let page = html::write(&report);
    assert!(
        page.contains("<svg")
            && page.contains("best with 4 workers: 100/s; 2 are enough for nine tenths of it")
    );
}

#[test]
fn others_at_work_on_the_machine_and_memory_are_told() {
    let mut report = report(&[(2, &[300.0, 300.0], &[100.0, 100.0])]);
    assert!(!text::write(&report).contains("not quiet"));
    report.subjects[1].runs[0].others_share = Some(0.25);
    report.subjects[1].runs[1].others_share = None;
    assert!(
        text::write(&report)
            .contains("memory of the dispatcher: 50.00 MB after warm-up, 60.00 MB at the end")
    );
    let says = "others used more than 5 % of it in 1 of 3 runs, 25 % at most. Quote no figure.";
    assert!(text::write(&report).contains(says) && html::write(&report).contains(says));
}

#[test]
fn one_size_has_no_curve() {
    let report = report(&[(2, &[300.0], &[100.0])]);
    assert!(report.best(OWN).is_none() && !html::write(&report).contains("<svg"));
}

#[test]
fn errors_stand_in_every_form_and_can_do_nothing_there() {
    let report = with_error("<b>\x1b[2Jbroken</b>");
    assert_eq!(report.own_errors(), (3, 2000));
    let page = html::write(&report);
    assert!(page.contains("3 x &lt;b&gt; [2Jbroken&lt;/b&gt;") && page.contains("left out: it fell over"));
    let words = text::write(&report);
    assert!(words.contains("3 x <b> [2Jbroken</b>") && !words.contains('\x1b'));
    let value: serde_json::Value = serde_json::from_str(&json::write(&report)).unwrap();
    assert_eq!(value["pools"][0]["runs"][0]["error_texts"][0]["count"], 3);
    assert_eq!(value["pools"][1]["failure"], "it fell over");
}
