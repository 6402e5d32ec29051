//! Skills beside the hands' own tools.

use std::sync::Arc;

use ollie_agent::{Hands, ModelCall, Skill, SkilledHands};

use crate::world::Hands1;

fn call(name: &str, arguments: &str) -> ModelCall {
    ModelCall {
        id: "a".into(),
        name: name.into(),
        arguments: arguments.into(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_skill_is_read_on_this_side() {
    let skill = Skill::parse("release", "---\ndescription: d\n---\n1. tag").unwrap();
    let inner = Arc::new(Hands1::default());
    let hands = SkilledHands::new(inner.clone(), vec![skill]);
    let tools = hands.tools().await.unwrap();
    assert_eq!(tools.last().unwrap().name, "skill");
    assert_eq!(
        tools.last().unwrap().parameters["properties"]["name"]["enum"][0],
        "release"
    );
    let mut output = |_| ();
    let good = hands
        .call(&call("skill", r#"{"name":"release"}"#), &mut output)
        .await;
    assert_eq!(good.outcome.content, "1. tag");
    let bad = hands
        .call(&call("skill", r#"{"name":"x"}"#), &mut output)
        .await;
    assert!(bad.outcome.is_error && bad.outcome.content.contains("release"));
    assert!(inner.log.lock().unwrap().is_empty());
    let other = hands.call(&call("look", "{}"), &mut output).await;
    assert_eq!(other.outcome.content, "result of look {}");
}
