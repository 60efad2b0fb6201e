use baton::Memory;
use baton_store::MemoryStore;
use baton_store::toolbox::Propose;

use super::*;

fn propose() -> Command {
    Command::Propose(Propose {
        id: "p".parse().unwrap(),
        by: "a".parse().unwrap(),
        title: "t".to_string(),
        body: String::new(),
        about: String::new(),
    })
}

#[tokio::test]
async fn behind_a_slow_store_only_so_many_wait() {
    let store = Arc::new(MemoryStore::default());
    let engine = Engine::start(store.clone()).await.unwrap();
    let executor = Arc::new(Executor::new(store, Memory::new()));
    let boards = Arc::new(Boards::new(executor, engine));
    let e: ElectionName = "e".parse().unwrap();
    let board = boards.board(&e);
    // Somebody is at it, and takes its time.
    let turn = board.turn().await;
    let ask = || {
        let (boards, e) = (Arc::clone(&boards), e.clone());
        tokio::spawn(async move { boards.carry_out(&e, propose()).await })
    };
    let waiting: Vec<_> = (0..MAX_WAITING).map(|_| ask()).collect();
    while board.waiting.load(Ordering::Relaxed) < MAX_WAITING {
        tokio::task::yield_now().await;
    }
    let refused = ask().await.unwrap();
    assert!(matches!(refused, Err(Error::Store(StoreError::Unavailable { .. }))), "{refused:?}");
    assert_eq!(boards.tools().waiting, MAX_WAITING as u64);
    drop(turn);
    for waited in waiting {
        let answered = waited.await.unwrap();
        assert!(matches!(answered, Err(Error::Refused(_))), "there is no such election: {answered:?}");
    }
    assert_eq!((board.waiting.load(Ordering::Relaxed), boards.waiting.load(Ordering::Relaxed)), (0, 0));
}
