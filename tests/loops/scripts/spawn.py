"""Workers started by spawn."""

from common import Clock, slow_loader, train


def main():
    loader, clock = slow_loader(num_workers=1, multiprocessing_context="spawn"), Clock()
    clock.begin()
    for batch in loader:
        clock.got()
        train(batch)
        clock.stepped()
    clock.end()
    clock.report()


if __name__ == "__main__":
    main()
