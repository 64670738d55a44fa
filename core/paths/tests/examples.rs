//! The worked examples of `spec/failover.md` 7.

use super::world::{Shape, World};

#[test]
fn the_first_path_is_the_best_pair() {
    for seed in 0..20 {
        let mut world = World::new(Shape::new(&[(3, 2), (3, 2)], seed).latency_ms(60));
        world.run_ms(2_000);
        assert_eq!(world.path(), (1, 1), "seed {seed}");
        assert!(world.last_change_ms((0, 1)) < 750, "seed {seed}: {}", world.last_change_ms((0, 1)));
    }
}

#[test]
fn power_loss_of_a_gateway_moves_the_path_and_its_return_does_not() {
    for seed in 0..20 {
        let mut world = World::settled(Shape::new(&[(3, 2), (3, 2)], seed).latency_ms(60));
        let start = world.now_ms();
        world.power_off("a1");
        world.run_ms(2_000);
        assert_eq!(world.path(), (2, 1), "seed {seed}");
        let took = world.last_change_ms((0, 1)) - start;
        assert!(took <= 600, "seed {seed}: {took}");
        world.power_on("a1");
        world.run_ms(2_000);
        assert_eq!(world.path(), (2, 1), "seed {seed}");
    }
}
